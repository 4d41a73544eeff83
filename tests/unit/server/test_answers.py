"""Tests of the cache of encoded responses, which belongs to one metadata image and has a limited size."""

from __future__ import annotations

import pytest

from pykbroker.server import answers as answers_module
from pykbroker.server.answers import TOPIC_BYTES, Answers
from pykbroker.server.handler import EncodedResponse

FIRST, SECOND = object(), object()
XYZ = EncodedResponse([b"xyz"])


def test_a_cached_response_is_found_while_its_image_is_current():
    answers = Answers()
    assert answers.find(FIRST, "a") is None
    answers.keep(FIRST, "a", XYZ, (b"id",))
    kept = answers.find(FIRST, "a")
    assert kept is not None
    assert (kept.answer, kept.topics) == (XYZ, (b"id",))
    assert answers.find(FIRST, "b") is None
    assert answers.find(SECOND, "a") is None
    assert answers.find(FIRST, "a") is None


def test_a_response_for_an_old_image_is_not_cached():
    answers = Answers()
    answers.find(FIRST, "a")
    answers.find(SECOND, "b")
    answers.keep(FIRST, "a", XYZ, ())
    assert answers.find(SECOND, "a") is None


@pytest.mark.parametrize(("size", "kept"), [(99, True), (100, True), (101, False)])
def test_the_bytes_of_cached_responses_are_limited(monkeypatch: pytest.MonkeyPatch, size: int, *, kept: bool):
    monkeypatch.setattr(answers_module, "ANSWERS_BYTES_MAX", 100)
    answers = Answers()
    answers.find(FIRST, "a")
    answers.keep(FIRST, "a", EncodedResponse([bytes(size)]), ())
    assert (answers.find(FIRST, "a") is not None) == kept
    answers.keep(FIRST, "b", EncodedResponse([b"xx"]), ())
    assert answers.find(FIRST, "b") is not None
    assert answers.find(FIRST, "a") is None


@pytest.mark.parametrize(("topics", "kept"), [(0, True), (1, True), (2, False)])
def test_the_keys_of_cached_responses_count_towards_the_limit(
    monkeypatch: pytest.MonkeyPatch, topics: int, *, kept: bool
):
    monkeypatch.setattr(answers_module, "ANSWERS_BYTES_MAX", TOPIC_BYTES + 3)
    answers = Answers()
    answers.find(FIRST, "a")
    answers.keep(FIRST, "a", XYZ, (b"id",) * topics)
    assert (answers.find(FIRST, "a") is not None) == kept


def test_the_number_of_cached_responses_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answers_module, "ANSWERS_MAX", 2)
    answers = Answers()
    for question in ("a", "b", "c"):
        answers.find(FIRST, question)
        answers.keep(FIRST, question, EncodedResponse([]), ())
    assert [answers.find(FIRST, question) is not None for question in ("a", "b", "c")] == [False, False, True]
