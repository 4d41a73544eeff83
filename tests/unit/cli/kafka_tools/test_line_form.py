"""Tests of the lines that kafka-console-producer reads. The expected records are those of Kafka 4.3.1."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper

import pytest

from pykbroker.cli.kafka_tools.console_producer import LineForm, Prompting
from pykbroker.cli.kafka_tools.options import InvalidCommandLine
from pykbroker.cli.records.record_lines import InvalidLine, ParsedRecord

KEYS, HEADERS = LineForm(parse_key=True), LineForm(parse_headers=True)
BOTH = LineForm(parse_key=True, parse_headers=True)


@pytest.mark.parametrize(
    ("form", "line", "value", "key", "headers"),
    [
        (KEYS, b"k\tv\tx", b"v\tx", b"k", ()),
        (KEYS._replace(key_separator=""), b"line", b"line", b"", ()),
        (BOTH, b"h:1,i:\tk\tv", b"v", b"k", (("h", b"1"), ("i", b""))),
        (HEADERS, b"h:1,,\tv", b"v", None, (("h", b"1"),)),
        (HEADERS._replace(ignore_error=True), b"bad,h:1\tv", b"v", None, (("bad", None), ("h", b"1"))),
        (HEADERS._replace(ignore_error=True), b"v", b"v", None, ()),
        (HEADERS._replace(null_marker="N"), b"N\tN", None, None, ()),
        (HEADERS._replace(null_marker="N"), b"h:N\tv", b"v", None, (("h", None),)),
        (KEYS._replace(null_marker=""), b"\t", None, None, ()),
        (BOTH._replace(null_marker="N"), b"N\tN\tN", None, None, ()),
    ],
)
def test_a_line_is_a_record(
    form: LineForm, line: bytes, value: bytes | None, key: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    form.check()
    assert form.record(line) == ParsedRecord(value, key, headers)


@pytest.mark.parametrize(
    ("form", "line", "sentence"),
    [
        (KEYS, b"line", "No key separator found: 'line' has no '\\\\t'"),
        (HEADERS, b"line", "No headers delimiter found: 'line' has no '\\\\t'"),
        (HEADERS, b"bad\tv", "No header key separator found: 'bad' has no ':'"),
        (HEADERS, b"\tv", "No header key separator found: '' has no ':'"),
        (HEADERS._replace(null_marker="N"), b"N:1\tv", "a header has the name 'N', which stands for null"),
    ],
)
def test_a_line_without_a_separator_is_no_record(form: LineForm, line: bytes, sentence: str) -> None:
    with pytest.raises(InvalidLine, match=sentence):
        form.record(line)


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (LineForm(headers_delimiter=","), "headers.delimiter and headers.separator"),
        (LineForm(headers_key_separator=","), "headers.separator and headers.key.separator"),
        (LineForm(null_marker="\t"), "null.marker and key.separator"),
    ],
)
def test_two_properties_with_the_same_text_are_refused(form: LineForm, names: str) -> None:
    with pytest.raises(InvalidCommandLine, match=f"{names} may not be equal"):
        form.check()


def test_a_terminal_shows_a_prompt_before_each_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"one\ntwo")))
    assert [Prompting().read(10) for _ in range(3)] == [b"one\n", b"two", b""]
    assert capsys.readouterr().out == ">>>"
