"""The records of a batch in segments: runs of records of equal shape stay bytes, all other records are columns.

Whoever copies whole columns, such as a converter to Arrow, copies the fields of a run by slices with a step. That takes
a third of the time that it takes to make an object of each field first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from wire.records.batch import Batch
from wire.records.column_reader import ColumnReader, Columns
from wire.records.column_runs import EqualRun
from wire.records.record import Headers


class RunSegment(msgspec.Struct, frozen=True, gc=False):
    """A run of records. `offset` is that of its first record. `timestamps` is one for all records, or a list."""

    run: EqualRun
    offset: int
    timestamps: int | list[int]

    def __len__(self) -> int:
        return self.run.records

    @property
    def offsets(self) -> range:
        return range(self.offset, self.offset + self.run.records)

    def slice(self, start: int, end: int) -> RunSegment:
        """Return the records from index `start` up to but not including `end`."""
        run, times = self.run, self.timestamps
        part = run._replace(pos=run.pos + start * run.size, records=end - start)
        return RunSegment(part, self.offset + start, times if isinstance(times, int) else times[start:end])

    def columns(self) -> Columns:
        found, times, nulls = self.run.columns(), self.timestamps, [None] * len(self)
        return Columns(
            list(self.offsets),
            [times] * len(self) if isinstance(times, int) else times,
            list(nulls if found.keys is None else found.keys),
            list(nulls if found.values is None else found.values),
            None if found.headers is None else list(found.headers),
        )


Segment: TypeAlias = Columns | RunSegment


class Segments:
    """The records of one batch, or a part of them, as segments in their order. None of them is empty.

    The attributes are those of `Columns`. Attributes that are lists are made at their first use.
    """

    __slots__ = ("_columns", "_count", "content_bytes", "segments")

    def __init__(self, segments: Sequence[Segment], content_bytes: int) -> None:
        self.segments, self._count, self.content_bytes = segments, sum(map(len, segments)), content_bytes
        self._columns: Columns | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def offsets(self) -> Sequence[int]:
        found = [each.offsets for each in self.segments]
        return found[0] if len(found) == 1 else _JoinedOffsets(found, len(self))

    @property
    def timestamps(self) -> list[int]:
        """Return the timestamps, in ms since 1970."""
        return self._all.timestamps

    @property
    def keys(self) -> list[bytes | None]:
        """Return the keys, None for records without a key."""
        return self._all.keys

    @property
    def values(self) -> list[bytes | None]:
        """Return the values, None for tombstones."""
        return self._all.values

    @property
    def headers(self) -> list[Headers] | None:
        """Return the headers, or None if no record has headers."""
        return self._all.headers

    @property
    def _all(self) -> Columns:
        if self._columns is None:
            self._columns = _joined([each if isinstance(each, Columns) else each.columns() for each in self.segments])
        return self._columns

    def slice(self, start: int, end: int) -> Segments:
        """Return the records from index `start` up to but not including `end`."""
        found: list[Segment] = []
        first = 0
        for each in self.segments:
            low, high = max(start - first, 0), min(end - first, len(each))
            if low < high:
                found.append(each if high - low == len(each) else each.slice(low, high))
            first += len(each)
        return Segments(found, self.content_bytes)


class _JoinedOffsets(Sequence[int]):
    """Sequences of offsets, one after the other. A search in them costs less than a list of them."""

    def __init__(self, parts: Sequence[Sequence[int]], count: int) -> None:
        self._parts, self._count = parts, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._parts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        at = index if index >= 0 else index + self._count
        for part in self._parts:
            if at < len(part):
                return part[at]
            at -= len(part)
        raise IndexError(index)


def _joined(parts: Sequence[Columns]) -> Columns:
    headers = None
    if any(part.headers is not None for part in parts):
        headers = list(chain.from_iterable(part.headers or [()] * len(part) for part in parts))
    return Columns(
        list(chain.from_iterable(part.offsets for part in parts)),
        list(chain.from_iterable(part.timestamps for part in parts)),
        list(chain.from_iterable(part.keys for part in parts)),
        list(chain.from_iterable(part.values for part in parts)),
        headers,
    )


def read_segments(batch: Batch, bytes_max: int) -> Segments:
    """Return the records of a batch. Everything else is as in `read_columns`."""
    reader = _SegmentReader(batch, bytes_max)
    reader.read()
    return Segments(reader.segments(), reader.content_bytes)


class _SegmentReader(ColumnReader):
    def __init__(self, batch: Batch, bytes_max: int) -> None:
        super().__init__(batch, bytes_max)
        self._found: list[Segment] = []
        self._append_time = batch.max_timestamp if batch.is_log_append_time else None

    def segments(self) -> list[Segment]:
        """Return the segments, once all records are read."""
        self._add_columns()
        return self._found

    def _add_run(self, run: EqualRun) -> None:
        columns, last = self.columns, len(self.columns) - 1
        offset, timestamp = columns.offsets[last], columns.timestamps[last]
        self.columns = columns.slice(0, last)
        self._add_columns()
        times = timestamp if run.stamps is None else [self._base_timestamp + stamp for stamp in run.stamps]
        self._found.append(RunSegment(run, offset, times if self._append_time is None else self._append_time))

    def _add_columns(self) -> None:
        columns = self.columns
        if len(columns):
            if self._append_time is not None:
                columns.timestamps = [self._append_time] * len(columns)
            self._found.append(columns)
        self.columns = Columns([], [], [], [])
