"""Arrow batches of Spark as tables for a producer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pykbroker.client.arrow import columns_of
from pykbroker.pipeline.writing.record_table import record_table

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME_MS = 1795507200123


def batch(keys: list[Any], headers: list[Any], times: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"v"] * len(keys), pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp_ms": pa.array(times, pa.int64()),
        }
    )


def test_headers_and_timestamps_become_those_of_records() -> None:
    headers = [None, [("a", b"1"), ("b", None), ("a", b"")], [], [("c", b"2")]]
    found = columns_of(record_table(batch([b"k", None, b"", b"l"], headers, [TIME_MS] * 4)), 0)
    assert found.keys == [b"k", None, b"", b"l"]
    assert found.headers == [(), (("a", b"1"), ("b", None), ("a", b"")), (), (("c", b"2"),)]
    assert found.timestamps == [TIME_MS] * 4


def test_a_slice_has_its_own_headers() -> None:
    headers = [[("a", b"1")], [("b", b"2")], None, [("c", b"3")]]
    whole = batch([None] * 4, headers, [TIME_MS] * 4)
    assert columns_of(record_table(whole.slice(1, 3)), 0).headers == [(("b", b"2"),), (), (("c", b"3"),)]


def test_columns_without_content_are_left_out() -> None:
    assert record_table(batch([None, None], [None, []], [TIME_MS] * 2)).column_names == ["value", "timestamp"]
