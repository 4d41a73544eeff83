"""Fetched records as the Arrow batches that Spark reads, in the columns of its format `kafka`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pykbroker.client.arrow import pyarrow, repeated
from wire.records.column_reader import Columns
from wire.records.record import Headers

if TYPE_CHECKING:
    import pyarrow as pa

    from pykbroker.core.consumer.records import FetchedColumns

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"


def spark_schema(*, has_headers: bool) -> str:
    """Return the columns in Spark's DDL."""
    return f"{COLUMNS}, {HEADERS}" if has_headers else COLUMNS


def arrow_schema(*, has_headers: bool) -> pa.Schema:
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
    return pa.schema(columns)


class RecordBatches:
    """A converter of the records of one partition. What is the same in all rows is made once."""

    def __init__(self, *, has_headers: bool) -> None:
        self.schema = arrow_schema(has_headers=has_headers)
        self._pa, self._has_headers = pyarrow(), has_headers

    def batch(self, parts: Sequence[FetchedColumns]) -> pa.RecordBatch:
        """Return the records of one or more parts, which are not empty, as one batch."""
        pa, columns = self._pa, [part.columns for part in parts]
        sizes, kinds = [len(part) for part in parts], self.schema.types
        arrays = [
            pa.array(_joined([each.keys for each in columns]), kinds[0]),
            pa.array(_joined([each.values for each in columns]), kinds[1]),
            repeated(pa, kinds[2], [part.partition.topic for part in parts], sizes),
            repeated(pa, kinds[3], [part.partition.partition for part in parts], sizes),
            pa.array(_joined([each.offsets for each in columns]), kinds[4]),
            _microseconds(pa, _joined([each.timestamps for each in columns])).cast(kinds[5]),
            repeated(pa, kinds[6], [part.timestamp_type for part in parts], sizes),
        ]
        if self._has_headers:
            arrays.append(self._headers(columns, kinds[7]))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _headers(self, columns: Sequence[Columns], kind: Any) -> pa.Array:
        """Return the headers. A record without headers has a null, as in Spark's own format."""
        if all(each.headers is None for each in columns):
            return self._pa.nulls(sum(map(len, columns)), kind)
        rows = _joined([each.headers or [()] * len(each) for each in columns])
        return self._pa.array([_structs(row) for row in rows], kind)


def _structs(headers: Headers) -> list[tuple[str, bytes | None]] | None:
    return list(headers) if headers else None


def _microseconds(pa: Any, timestamps: list[int]) -> Any:
    """Return timestamps in ms as an array in us."""
    return pa.array(timestamps, pa.timestamp("ms", "UTC"))


def _joined(lists: list[list[Any]]) -> list[Any]:
    return lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
