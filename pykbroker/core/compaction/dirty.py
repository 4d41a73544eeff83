"""Which part of a log may be compacted, how much of it is dirty, and which of its segments become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeVar

RELATIVE_OFFSET_MAX = 2**31 - 1


class Stretch(Protocol):
    """A segment, as far as it matters here. Offsets from `base_offset` to below `next_offset`, `size` in bytes."""

    base_offset: int
    next_offset: int
    size: int


S = TypeVar("S", bound=Stretch)


class Dirt(NamedTuple):
    """All from `first_dirty` to below `end` may be compacted against what lies before it. Sizes in bytes."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool = False

    @property
    def ratio(self) -> float:
        """How much of what can be compacted is dirty, from 0 to 1."""
        whole = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / whole if whole else 0.0

    def is_due(self, ratio_min: float) -> bool:
        """Whether it is dirty enough, or has waited for as long as it may."""
        return self.ratio > ratio_min or (self.is_overdue and self.dirty_bytes > 0)


def first_dirty(cleaned_offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """Where to go on, by what was written down, which the log may not bear out any more."""
    return cleaned_offset if log_start_offset <= cleaned_offset <= log_end_offset else log_start_offset


def below(sealed: Iterable[S], upper_offset: int) -> list[S]:
    """The segments that are wholly below: nothing of an open transaction, and nothing that is not yet durable."""
    return list(takewhile(lambda one: one.next_offset <= upper_offset, sealed))


def dirt(segments: Sequence[Stretch], start: int, *, is_overdue: bool) -> Dirt:
    """Of these segments, which may all be compacted, those that end above `start` are dirty."""
    end = segments[-1].next_offset if segments else start
    clean = sum(one.size for one in segments if one.next_offset <= start)
    return Dirt(start, max(start, end), clean, sum(one.size for one in segments) - clean, is_overdue)


class Sizes(NamedTuple):
    """Of one segment's files, in bytes."""

    log: int
    offset_index: int
    time_index: int


def groups(segments: Sequence[S], sizes: Sequence[Sizes], size_max: int, index_size_max: int) -> list[list[S]]:
    """The segments, in order, grouped so that each group fits into one segment with its indexes and its offsets.

    An empty segment fits however far its offsets are, as in Kafka: else one would be left of every 2^31 offsets.
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
