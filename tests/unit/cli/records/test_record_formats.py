"""Tests of the output formats of records."""

from __future__ import annotations

import pytest

from pykbroker.cli.records.record_formats import FIELDS, raw_format, template_format, text_format, time_text, unescaped
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from wire.records.column_reader import Columns

RECORDS = FetchedColumns(
    TopicPartition("orders", 3),
    Columns([7, 9], [1_700_000_000_123, -1], [b"k", None], [b"v%d", None], [(("a", b"1"), ("b", None)), ()]),
    0,
    -1,
)
NONE = FetchedColumns(TopicPartition("orders", 3), Columns([], [], [], []), 0, -1)
PLAIN = FetchedColumns(TopicPartition("orders", 3), Columns([7], [0], [None], [b"v"]), 0, -1)


def test_text_has_a_value_on_each_line() -> None:
    assert text_format()(RECORDS) == b"v%d\n\n"
    assert text_format(delimiter=b"\0", null_marker=b"NULL")(RECORDS) == b"v%d\0NULL\0"


def test_text_has_the_key_before_its_delimiter() -> None:
    assert text_format(key_delimiter=b"\t", null_marker=b"NULL")(RECORDS) == b"k\tv%d\nNULL\tNULL\n"


def test_raw_has_only_the_values() -> None:
    assert raw_format(RECORDS) == b"v%d"


@pytest.mark.parametrize(
    ("template", "first", "second"),
    [
        ("{topic}-{partition}@{offset}\\n", b"orders-3@7\n", b"orders-3@9\n"),
        ("{key}={value};", b"k=v%d;", b"NULL=NULL;"),
        ("{timestamp} {time},", b"1700000000123 2023-11-14T22:13:20.123Z,", b"-1 -1,"),
        ("{headers}|", b"a=1,b=NULL|", b"|"),
        ("{key_bytes},{value_bytes} ", b"1,3 ", b"-1,-1 "),
        ("100% {{{offset}}} ", b"100% {7} ", b"100% {9} "),
        ("{topic}{partition} ", b"orders3 ", b"orders3 "),
        ("x%d\\t", b"x%d\t", b"x%d\t"),
    ],
)
def test_a_template_is_filled_in_for_each_record(template: str, first: bytes, second: bytes) -> None:
    assert template_format(template, b"NULL")(RECORDS) == first + second


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_a_template_has_one_text_for_each_record(name: str) -> None:
    formatted = template_format(f"<{{{name}}}>")
    assert formatted(RECORDS).count(b"<") == 2
    assert formatted(PLAIN).count(b">") == 1
    assert formatted(NONE) == b""


def test_no_records_have_no_text_in_any_format() -> None:
    assert [text_format()(NONE), text_format(key_delimiter=b":")(NONE), raw_format(NONE)] == [b"", b"", b""]


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", b""),
        (":", b":"),
        ("\\t", b"\t"),
        ("a\\nb\\\\n", b"a\nb\\n"),
        ("\\x1f\\0\\r", b"\x1f\0\r"),
        ("é", "é".encode()),
    ],
)
def test_escapes_are_replaced(text: str, content: bytes) -> None:
    assert unescaped(text) == content


@pytest.mark.parametrize("text", ["\\", "a\\", "\\q", "\\x1", "\\xzz"])
def test_an_unknown_escape_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no escape: write \\n, \\t"):
        unescaped(text)


@pytest.mark.parametrize(
    ("timestamp", "time"),
    [
        (-2, b"1969-12-31T23:59:59.998Z"),
        (-62_135_596_800_000, b"0001-01-01T00:00:00.000Z"),
        (-62_135_596_800_001, b"-62135596800001"),
        (253_402_300_799_999, b"9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, b"253402300800000"),
        (-(2**63), b"%d" % -(2**63)),
        (2**63 - 1, b"%d" % (2**63 - 1)),
    ],
)
def test_a_time_outside_of_the_calendar_is_printed_in_ms(timestamp: int, time: bytes) -> None:
    assert time_text(timestamp) == time


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{vaule}", "'{vaule}' in the template is no field: write {topic}, {partition}"),
        ("{}", "'{}' in the template is no field"),
        ("{", "'{' in the template is no field"),
        ("a}", "'}' in the template is no field"),
        ("\\q", "is no escape"),
    ],
)
def test_an_invalid_template_is_refused_with_what_to_write(template: str, reason: str) -> None:
    with pytest.raises(ValueError, match="in ") as refused:
        template_format(template)
    assert reason in str(refused.value)
