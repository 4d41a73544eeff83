"""The dirty part of a log, which the next compaction reads: its position and size, and the segments to merge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeVar

RELATIVE_OFFSET_MAX = 2**31 - 1


class SegmentExtent(Protocol):
    """A segment's extent: offsets from `base_offset` to below `next_offset`, and `size` in bytes."""

    base_offset: int
    next_offset: int
    size: int


S = TypeVar("S", bound=SegmentExtent)


class DirtyRange(NamedTuple):
    """The dirty part of a log, from `first_dirty` to below `end`: records since the last compaction.

    Sizes are in bytes.
    """

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool = False

    @property
    def ratio(self) -> float:
        """Return the dirty share of the bytes that can be compacted, from 0 to 1."""
        whole = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / whole if whole else 0.0

    def is_due(self, ratio_min: float) -> bool:
        """Whether the dirty ratio exceeds `ratio_min`, or dirty data has waited for max.compaction.lag.ms."""
        return self.ratio > ratio_min or (self.is_overdue and self.dirty_bytes > 0)


def first_dirty(cleaned_offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """Return the checkpointed offset, or the log start offset if the checkpoint is outside the log."""
    return cleaned_offset if log_start_offset <= cleaned_offset <= log_end_offset else log_start_offset


def below(sealed: Iterable[S], upper_offset: int) -> list[S]:
    """Return the segments that end at or below `upper_offset`.

    The caller chooses an offset that excludes open transactions and data that is not yet flushed.
    """
    return list(takewhile(lambda one: one.next_offset <= upper_offset, sealed))


def dirty_range(segments: Sequence[SegmentExtent], start: int, *, is_overdue: bool) -> DirtyRange:
    """Return the dirty part of segments that may be compacted: the segments that end above `start`."""
    end = segments[-1].next_offset if segments else start
    clean = sum(one.size for one in segments if one.next_offset <= start)
    return DirtyRange(start, max(start, end), clean, sum(one.size for one in segments) - clean, is_overdue)


class Sizes(NamedTuple):
    """The sizes in bytes of one segment's files."""

    log: int
    offset_index: int
    time_index: int


def groups(segments: Sequence[S], sizes: Sequence[Sizes], size_max: int, index_size_max: int) -> list[list[S]]:
    """Group consecutive segments so that each group fits into one segment with its indexes and relative offsets.

    An empty segment fits into any group, as in Kafka. Otherwise an empty segment would remain for every 2^31 offsets.
    """
    grouped: list[list[S]] = []
    room = Sizes(-1, -1, -1)
    for segment, size in zip(segments, sizes, strict=True):
        left = Sizes(room.log - size.log, room.offset_index - size.offset_index, room.time_index - size.time_index)
        fits = min(left) >= 0 and (
            not size.log or segment.next_offset - 1 - grouped[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            grouped[-1].append(segment)
            room = left
        else:
            grouped.append([segment])
            room = Sizes(size_max - size.log, index_size_max - size.offset_index, index_size_max - size.time_index)
    return grouped
