"""Fetched records as the Arrow batches that Spark reads, in the columns of its format `kafka`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pykbroker.client.arrow import compute, pyarrow, repeated
from pykbroker.pipeline.source.column_buffers import BinaryColumn, LongColumn
from pykbroker.pipeline.source.header_column import HeaderColumn
from wire.records.segments import RunSegment, Segments

if TYPE_CHECKING:
    import pyarrow as pa

    from pykbroker.core.consumer.records import FetchedColumns, RecordColumns

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"


TIME_MS = "timestamp_ms long"
TIME_MS_MIN, TIME_MS_MAX = -(2**63) // 1000 + 1, (2**63 - 1) // 1000
"""The limits of the times in ms that Spark's type holds in microseconds."""


def spark_schema(*, has_headers: bool, has_time_ms: bool = False) -> str:
    """Return the columns in Spark's DDL."""
    return ", ".join([COLUMNS, *[HEADERS] * has_headers, *[TIME_MS] * has_time_ms])


def arrow_schema(*, has_headers: bool, has_time_ms: bool = False) -> pa.Schema:
    """Return the columns as Spark wants them in Arrow: timestamps in microseconds."""
    pa = pyarrow()
    columns = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
    }
    if has_headers:
        columns["headers"] = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    if has_time_ms:
        columns["timestamp_ms"] = pa.int64()
    return pa.schema(columns)


def timestamps_of(pa: Any, times_ms: Any) -> Any:
    """Return times in ms as timestamps in microseconds. A time that the type cannot hold is null."""
    micros = pa.timestamp("us", "UTC")
    in_ms = times_ms.cast(pa.timestamp("ms", "UTC"))
    try:
        return in_ms.cast(micros)
    except pa.ArrowInvalid:  # of a few batches at most
        fits = compute().and_(
            compute().greater_equal(times_ms, TIME_MS_MIN), compute().less_equal(times_ms, TIME_MS_MAX)
        )
        return compute().if_else(fits, in_ms, pa.scalar(None, in_ms.type)).cast(micros)


class RecordBatches:
    """A converter of the records of one partition."""

    def __init__(self, *, has_headers: bool, has_time_ms: bool = False) -> None:
        self.schema = arrow_schema(has_headers=has_headers, has_time_ms=has_time_ms)
        self._pa, self._has_headers, self._has_time_ms = pyarrow(), has_headers, has_time_ms

    def batch(self, parts: Sequence[FetchedColumns]) -> pa.RecordBatch:
        """Return the records of one or more parts, which are not empty, as one batch."""
        pa, kinds, partition = self._pa, self.schema.types, parts[0].partition
        columns = _RowColumns()
        for segment in chain.from_iterable(_segments(part) for part in parts):
            if isinstance(segment, RunSegment):
                columns.add_run(segment, has_headers=self._has_headers)
            else:
                columns.add_columns(segment, has_headers=self._has_headers)
        sizes = [len(part) for part in parts]
        rows = sum(sizes)
        times_ms = columns.timestamps.array(pa.int64())
        arrays = [
            columns.keys.array(kinds[0]),
            columns.values.array(kinds[1]),
            pa.repeat(pa.scalar(partition.topic, kinds[2]), rows),
            pa.repeat(pa.scalar(partition.partition, kinds[3]), rows),
            columns.offsets.array(kinds[4]),
            timestamps_of(pa, times_ms),
            _timestamp_types(pa, kinds[6], parts, sizes),
        ]
        if self._has_headers:
            arrays.append(columns.headers.array(kinds[7]))
        if self._has_time_ms:
            arrays.append(times_ms)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _RowColumns:
    """The columns that differ from row to row."""

    def __init__(self) -> None:
        self.keys, self.values, self.headers = BinaryColumn(), BinaryColumn(), HeaderColumn()
        self.offsets, self.timestamps = LongColumn(), LongColumn()

    def add_run(self, segment: RunSegment, *, has_headers: bool) -> None:
        """Append records of equal shape."""
        run, count = segment.run, len(segment)
        rows = np.frombuffer(run.data, np.uint8, count * run.size, run.pos).reshape(count, run.size)
        for column, place in ((self.keys, run.key), (self.values, run.value)):
            if place is None:
                column.add_nulls(count)
            else:
                column.add_rows(rows[:, place.start : place.stop], [len(place)])
        self.offsets.add(segment.offsets, count)
        self.timestamps.add(segment.timestamps, count)
        if has_headers:
            self.headers.add_run(rows, run.headers)

    def add_columns(self, columns: RecordColumns, *, has_headers: bool) -> None:
        """Append records whose fields are objects."""
        count = len(columns)
        self.keys.add_values(columns.keys)
        self.values.add_values(columns.values)
        self.offsets.add(columns.offsets, count)
        self.timestamps.add(columns.timestamps, count)
        if has_headers:
            self.headers.add_records(columns.headers or [()] * count)


def _timestamp_types(pa: Any, kind: Any, parts: Sequence[FetchedColumns], sizes: Sequence[int]) -> pa.Array:
    types = [part.timestamp_type for part in parts]
    if len(set(types)) == 1:
        return pa.repeat(pa.scalar(types[0], kind), sum(sizes))
    return repeated(pa, kind, types, sizes)


def _segments(part: FetchedColumns) -> Sequence[RecordColumns | RunSegment]:
    columns = part.columns
    return columns.segments if isinstance(columns, Segments) else [columns]
