"""The division of fetched records into portions of bounded size, each of which becomes one Arrow batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wire.records.segments import RunSegment, Segments

if TYPE_CHECKING:
    from pykbroker.core.consumer.records import FetchedColumns, RecordColumns

PORTION_BYTES_MAX = 32 << 20
"""The bytes of keys, values and headers in one portion, unless a single record has more."""


def portions(parts: Sequence[FetchedColumns], bytes_max: int = PORTION_BYTES_MAX) -> Iterator[list[FetchedColumns]]:
    """Yield parts in lists of at most `bytes_max` bytes of content, in their order. A larger record is alone."""
    found: list[FetchedColumns] = []
    left = bytes_max
    for whole in parts:
        for part, size in _cut(whole, bytes_max):
            if found and size > left:
                yield found
                found, left = [], bytes_max
            found.append(part)
            left -= size
    if found:
        yield found


def _cut(part: FetchedColumns, bytes_max: int) -> Iterator[tuple[FetchedColumns, int]]:
    """Yield a part in pieces of at most `bytes_max` bytes or one record, each with its size."""
    if part.columns.content_bytes <= bytes_max:
        yield part, part.columns.content_bytes
        return
    ends, start, before = np.cumsum(np.concatenate(_record_sizes(part.columns))), 0, 0
    while start < len(part):
        end = max(start + 1, int(np.searchsorted(ends, before + bytes_max, side="right")))
        yield part.slice(start, end), int(ends[end - 1]) - before
        start, before = end, int(ends[end - 1])


def _record_sizes(columns: RecordColumns) -> list[Any]:
    """Return arrays with the bytes of each record: in a run those that each takes in its batch, else its fields."""
    found = []
    for each in columns.segments if isinstance(columns, Segments) else [columns]:
        if isinstance(each, RunSegment):
            found.append(np.full(len(each), each.run.size, np.int64))
            continue
        sizes = [len(key or b"") + len(value or b"") for key, value in zip(each.keys, each.values, strict=True)]
        for row, headers in enumerate(each.headers or ()):
            sizes[row] += sum(len(key.encode()) + len(value or b"") for key, value in headers)
        found.append(np.array(sizes, np.int64))
    return found
