"""Tests of the values of --from and --to, and of the options that contradict each other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import pytest

from pykbroker.cli.records.read_plan import check_options
from pykbroker.cli.records.read_range import LastOffsets, start_point, stop_point

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("beginning", "beginning"),
        ("end", "end"),
        ("0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-3", LastOffsets(3)),
        ("2026-01-31T12:00:00+00:00", MOMENT),
    ],
)
def test_a_start_is_a_word_an_offset_a_number_of_last_offsets_or_a_time(text: str, point: Any) -> None:
    assert start_point(text) == point


@pytest.mark.parametrize(("text", "point"), [("end", "end"), ("7", 7), ("2026-01-31T12:00:00+00:00", MOMENT)])
def test_a_stop_is_the_end_an_offset_or_a_time(text: str, point: Any) -> None:
    assert stop_point(text) == point


@pytest.mark.parametrize("text", ["", "-", "-0", "-x", "+1", "1.5", "latest", "9223372036854775808", "1969-01-01"])
def test_any_other_start_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        start_point(text)


@pytest.mark.parametrize("text", ["", "-1", "beginning", "9223372036854775808"])
def test_any_other_stop_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        stop_point(text)


@pytest.mark.parametrize(
    "options",
    [
        {"start": "end", "stop": None, "indexes": (), "group": None, "follow": True},
        {"start": "end", "stop": None, "indexes": (), "group": "g", "follow": False},
        {"start": LastOffsets(1), "stop": 9, "indexes": (1, 2), "group": None, "follow": True},
        {"start": None, "stop": MOMENT, "indexes": (), "group": "g", "follow": False},
    ],
)
def test_options_that_fit_together_are_accepted(options: dict[str, Any]) -> None:
    check_options(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start": "end", "stop": None, "indexes": (), "group": None, "follow": False}, "add --follow"),
        ({"start": None, "stop": MOMENT, "indexes": (), "group": None, "follow": True}, "give --to an offset"),
        ({"start": None, "stop": None, "indexes": (0,), "group": "g", "follow": False}, "leave out --partition"),
        ({"start": 5, "stop": None, "indexes": (), "group": "g", "follow": False}, "groups reset"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(click.UsageError, match=text):
        check_options(**options)
