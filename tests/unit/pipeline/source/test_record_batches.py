"""Fetched records as the Arrow batches that Spark reads, compared with the records as objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykbroker.core.consumer.records import FetchedColumns, ReadRecords
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.record_batches import TIME_MS_MAX, TIME_MS_MIN, RecordBatches, timestamps_of
from tests.unit.wire.records.test_column_reader import BYTES_MAX, batch_of
from wire.records.column_reader import read_columns
from wire.records.columns import encode_record
from wire.records.record import Headers
from wire.records.segments import read_segments

pa = pytest.importorskip("pyarrow")

Record = tuple[bytes | None, bytes | None, Headers]
READERS = pytest.mark.parametrize("reads", [read_segments, read_columns])
PARTITION = TopicPartition("orders", 3)
EQUAL: list[Record] = [(b"key%03d" % row, b"value%03d" % row, ()) for row in range(100)]
WITH_HEADERS: list[Record] = [
    (None, b"%03d" % row, (("trace", b"%05d" % row), ("städte", b"%02d" % (row % 50)))) for row in range(100)
]
WITH_NULL_HEADERS: list[Record] = [(b"k", None, (("a", None), ("b", b"%03d" % row))) for row in range(100)]
WITH_EMPTY: list[Record] = [(b"", b"", (("", b""),)) for _ in range(100)]
UNEQUAL: list[Record] = [
    (None if row % 3 else b"k" * row, None if row % 7 == 0 else b"v" * row, (("h", b"x" * row),) * (row % 2))
    for row in range(100)
]
CASES = pytest.mark.parametrize(
    "records",
    [EQUAL, WITH_HEADERS, WITH_NULL_HEADERS, WITH_EMPTY, UNEQUAL, EQUAL + UNEQUAL + WITH_HEADERS, UNEQUAL[:1]],
    ids=["equal", "headers", "null headers", "empty", "unequal", "mixed", "one"],
)


def fetched(records: list[Record], reads: ReadRecords, timestamp_type: int = 0) -> FetchedColumns:
    payload = b"".join(encode_record(*record, row // 10, row) for row, record in enumerate(records))
    batch = batch_of(payload, len(records), len(records) - 1)
    return FetchedColumns(PARTITION, reads(batch, BYTES_MAX), timestamp_type, 0)


def expected(part: FetchedColumns, *, has_headers: bool) -> list[dict[str, Any]]:
    rows = []
    for each in part.records():
        row: dict[str, Any] = {"key": each.key, "value": each.value, "topic": each.topic, "partition": each.partition}
        row["offset"] = each.offset
        row["timestamp"] = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=each.timestamp)
        row["timestampType"] = each.timestamp_type
        if has_headers:
            row["headers"] = [{"key": key, "value": value} for key, value in each.headers] or None
        rows.append(row)
    return rows


@CASES
@READERS
@pytest.mark.parametrize("has_headers", [False, True])
def test_a_batch_has_the_fields_of_the_records(records: list[Record], reads: ReadRecords, has_headers: bool) -> None:
    found = RecordBatches(has_headers=has_headers).batch([fetched(records, reads)])
    found.validate(full=True)
    assert found.to_pylist() == expected(fetched(records, read_columns), has_headers=has_headers)


@READERS
def test_parts_of_a_batch_keep_their_order_and_their_timestamp_types(reads: ReadRecords) -> None:
    parts = [
        fetched(EQUAL, reads, 1),
        fetched(UNEQUAL, reads, 0).slice(5, 60),
        fetched(WITH_HEADERS, reads).slice(9, 90),
    ]
    found = RecordBatches(has_headers=True).batch(parts)
    found.validate(full=True)
    assert found.to_pylist() == [row for part in parts for row in expected(part, has_headers=True)]


def test_a_column_without_values_is_null() -> None:
    found = RecordBatches(has_headers=True).batch(
        [fetched([(None, b"%d" % (row % 10), ()) for row in range(50)], read_segments)]
    )
    assert (found.column("key").null_count, found.column("headers").null_count) == (50, 50)


def test_a_time_that_a_timestamp_of_spark_cannot_hold_is_null() -> None:
    times = [TIME_MS_MAX, TIME_MS_MAX + 1, TIME_MS_MIN, TIME_MS_MIN - 1, -1, 2**63 - 1, -(2**63)]
    found = timestamps_of(pa, pa.array(times, pa.int64()))
    assert found.cast(pa.int64()).to_pylist() == [TIME_MS_MAX * 1000, None, TIME_MS_MIN * 1000, None, -1000, None, None]


def test_the_column_of_times_in_ms_is_the_last_one() -> None:
    part = fetched(EQUAL, read_segments)
    found = RecordBatches(has_headers=True, has_time_ms=True).batch([part])
    assert found.schema.names[-2:] == ["headers", "timestamp_ms"]
    assert found.column("timestamp_ms").to_pylist() == [each.timestamp for each in part.records()]
