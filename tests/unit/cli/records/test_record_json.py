"""Tests of records as lines of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.cli.records.record_json import json_lines
from pykbroker.cli.records.record_lines import json_record
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer.record import timestamp_of
from wire.records.column_reader import Columns
from wire.records.record import Headers

PLACE = TopicPartition("orders", 3)
Content = bytes | None


def fetched(
    values: list[Content], keys: list[Content] | None = None, headers: list[Headers] | None = None, timestamp: int = 5
) -> FetchedColumns:
    count = len(values)
    columns = Columns(list(range(7, 7 + count)), [timestamp] * count, keys or [None] * count, values, headers)
    return FetchedColumns(PLACE, columns, 0, -1)


def test_a_record_is_an_object_with_these_fields() -> None:
    (line,) = json_lines(fetched([b"v"], [b"k"], [(("h", b"1"), ("h", None))])).splitlines()
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": 5,
        "key": "k",
        "value": "v",
        "headers": [["h", "1"], ["h", None]],
    }


def test_a_null_key_a_null_value_and_a_missing_timestamp_are_null() -> None:
    (line,) = json_lines(fetched([None], timestamp=-1)).splitlines()
    found = json.loads(line)
    assert (found["key"], found["value"], found["timestamp"], found["headers"]) == (None, None, None, [])


@pytest.mark.parametrize("timestamp", [-(2**63), -5000, -2, 0, 5, 2**63 - 1])
def test_a_time_is_sent_again_as_it_was_printed(timestamp: int) -> None:
    (line,) = json_lines(fetched([b"v"], timestamp=timestamp)).splitlines()
    assert timestamp_of(json_record(line).timestamp) == timestamp


def test_a_key_or_a_value_that_is_no_utf_8_is_in_base64() -> None:
    first, second = map(json.loads, json_lines(fetched([b"\xff", b"v"], [b"k", b"\xfe"])).splitlines())
    assert (first["value_base64"], first["key"], "value" in first) == ("/w==", "k", False)
    assert (second["value"], second["key_base64"], "key" in second) == ("v", "/g==", False)


def test_headers_of_which_one_is_no_utf_8_are_in_base64() -> None:
    rows: list[Headers] = [(("a", b"\xff"), ("b", b"1"), ("c", None)), (("a", b"1"),), ()]
    first, second, third = map(json.loads, json_lines(fetched([b"v"] * 3, headers=rows)).splitlines())
    assert (first["headers_base64"], "headers" in first) == ([["a", "/w=="], ["b", "MQ=="], ["c", None]], False)
    assert (second["headers"], third["headers"]) == ([["a", "1"]], [])


def test_no_records_have_no_lines() -> None:
    assert json_lines(fetched([])) == b""


@pytest.mark.parametrize("text", ["a\nb", "\u2028", '"', "\0", "\U0001f600"])
def test_a_record_has_one_line_whatever_its_text(text: str) -> None:
    assert json_lines(fetched([text.encode()])).count(b"\n") == 1


contents = st.none() | st.binary(max_size=6) | st.text(max_size=6).map(str.encode)
header_rows = st.lists(st.tuples(st.text(max_size=3), contents), max_size=3).map(tuple)


@given(st.lists(st.tuples(contents, contents, header_rows), min_size=1, max_size=8))
def test_printed_records_are_read_with_the_same_content(rows: list[tuple[Content, Content, Headers]]) -> None:
    keys, values, headers = map(list, zip(*rows, strict=True))
    found = [json_record(line) for line in json_lines(fetched(values, keys, headers)).split(b"\n")[:-1]]
    assert [(each.key, each.value, each.headers) for each in found] == rows
    assert {(each.partition, each.timestamp) for each in found} == {(3, 5)}
