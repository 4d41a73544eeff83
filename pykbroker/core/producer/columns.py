"""Records as columns: a sequence of values, and optionally of keys, headers and timestamps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import ceil
from typing import cast

from pykbroker.core.producer.batch import (
    OVERHEAD_BYTES,
    RECORDS_MAX,
    SMALL_BYTES_MAX,
    SMALL_OVERHEAD_BYTES,
    ProducerBatch,
    headers_bytes_max,
    record_bytes_max,
)
from wire.declare import Buffer
from wire.records.batch import HEADER_BYTES
from wire.records.record import Headers

TIMESTAMP_BYTES_MAX = 10
"""The maximum bytes of an encoded timestamp."""
_BYTES_OR_NULL = frozenset({bytes, type(None)})


class Columns:
    """Rows that become records. Batches take runs of rows, without a call for each row.

    A timestamp in ms since 1970 applies to all rows, unless there is a column of timestamps. Rows with timestamps of
    their own are appended one by one. Raise ValueError if columns differ in length, and TypeError if a key or a value
    is neither bytes nor null.
    """

    def __init__(
        self,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None,
        headers: Sequence[Headers] | None,
        timestamps: Sequence[int] | int,
    ) -> None:
        self.values, self.keys = as_bytes("values", values), None if keys is None else as_bytes("keys", keys)
        self._headers = headers if headers is not None and any(headers) else None
        self._timestamp = timestamps if isinstance(timestamps, int) else 0
        self._timestamps = None if isinstance(timestamps, int) else timestamps
        for name, column in (("keys", keys), ("headers", headers), ("timestamps", self._timestamps)):
            if column is not None and len(column) != len(values):
                raise ValueError(f"the column '{name}' has {len(column)} rows, but 'values' has {len(values)}")
        self._sizes = lengths(self.values)
        if self.keys is not None:
            self._sizes = list(map(int.__add__, self._sizes, lengths(self.keys)))
        if self._headers is not None:
            self._sizes = list(map(int.__add__, self._sizes, map(headers_bytes_max, self._headers)))
        self._row_bytes_max = max(self._sizes, default=0)
        """The bytes of key, value and headers in the largest row."""
        self._overhead = OVERHEAD_BYTES if self._row_bytes_max > SMALL_BYTES_MAX else SMALL_OVERHEAD_BYTES
        self._are_equal = self._sizes.count(self._row_bytes_max) == len(self._sizes)
        self._ends: list[int] | None = None if self._are_equal else list(accumulate(self._sizes))
        """The bytes of all rows up to and including each row, if the sizes differ."""
        self.visited: set[int] = set()
        """The partitions for which these rows have opened a batch in the present round (`TopicIntake.unvisited`)."""

    def __len__(self) -> int:
        return len(self.values)

    def record_bytes_max(self, row: int) -> int:
        """Return an upper bound of the encoded bytes of a batch that has this row only."""
        return record_bytes_max(
            None if self.keys is None else self.keys[row],
            self.values[row],
            () if self._headers is None else self._headers[row],
        )

    def batch_bytes_max(self, start: int, batches: int) -> int:
        """Return an upper bound of the encoded bytes of a batch, if so many batches share the rows from `start` on."""
        row_overhead = self._overhead + (1 if self._timestamps is None else TIMESTAMP_BYTES_MAX)
        content = self.bytes_of(start, len(self)) + row_overhead * (len(self) - start)
        return HEADER_BYTES + ceil(content / batches)

    def timestamp_of(self, row: int) -> int:
        """Return the timestamp of a row in ms since 1970."""
        return self._timestamp if self._timestamps is None else self._timestamps[row]

    def largest_row(self) -> int:
        """Return the row with the most bytes."""
        return self._sizes.index(self._row_bytes_max)

    def take(self, rows: Sequence[int]) -> Columns:
        """Return these rows as columns of their own."""
        timestamps = self._timestamps
        return Columns(
            [self.values[row] for row in rows],
            None if self.keys is None else [self.keys[row] for row in rows],
            None if self._headers is None else [self._headers[row] for row in rows],
            self._timestamp if timestamps is None else [timestamps[row] for row in rows],
        )

    def append_to(self, batch: ProducerBatch, start: int) -> int:
        """Append rows from `start` on while the batch has room. Return the first row that was not appended."""
        if self._timestamps is not None:
            return self._append_singly(batch, start)
        overhead = self._overhead + batch.stamp_bytes(self._timestamp)
        end = start if batch.is_closed else self._last_that_fits(batch, start, overhead)
        if end > start:
            size = self.bytes_of(start, end) + overhead * (end - start)
            keys = None if self.keys is None else self.keys[start:end]
            headers = None if self._headers is None else self._headers[start:end]
            batch.append_columns(self.values[start:end], keys, headers, self._timestamp, size)
        return end

    def _last_that_fits(self, batch: ProducerBatch, start: int, overhead: int) -> int:
        """Return the end of the run of rows that fit into an open batch."""
        room = min(batch.reserved, batch.bytes_max) - batch.size
        most = min(len(self), start + RECORDS_MAX - batch.count)
        if self._ends is None:
            end = min(most, start + max(0, room) // (self._row_bytes_max + overhead))
        else:
            # `ends` counts the bytes from row 0 on, so that the rows before `start` are added to the room.
            ends, room = self._ends, room + self._ends[start] - self._sizes[start]
            end = bisect_right(range(most), room, lo=start, key=lambda row: ends[row] + overhead * (row - start + 1))
        # The first record of a batch may exceed `bytes_max`, as in `ProducerBatch.try_append`.
        if end == start and not batch.count and self.record_bytes_max(start) <= batch.reserved:
            return start + 1
        return end

    def bytes_of(self, start: int, end: int) -> int:
        """Return the bytes of keys, values and headers in the rows from `start` to `end`."""
        if self._ends is None:
            return self._row_bytes_max * (end - start)
        return self._ends[end - 1] - self._ends[start] + self._sizes[start]

    def _append_singly(self, batch: ProducerBatch, start: int) -> int:
        for row in range(start, len(self)):
            key = None if self.keys is None else self.keys[row]
            headers = () if self._headers is None else self._headers[row]
            if batch.try_append(key, self.values[row], headers, self.timestamp_of(row)) is None:
                return row
        return len(self)


def as_bytes(name: str, column: Sequence[Buffer | None]) -> Sequence[bytes | None]:
    """Return a column whose values are bytes or null, which their owner cannot change any more."""
    if set(map(type, column)) <= _BYTES_OR_NULL:
        return cast(Sequence[bytes | None], column)
    return [as_bytes_or_null(name, row, value) for row, value in enumerate(column)]


def as_bytes_or_null(name: str, row: int, value: Buffer | None) -> bytes | None:
    """Return one value of a column as bytes."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"row {row} of the column '{name}' is of type {type(value).__name__}: pass bytes or None")


def lengths(column: Iterable[Buffer | None]) -> list[int]:
    """Return the length of each value. A null has the length 0."""
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:
        return [0 if value is None else len(value) for value in column]
