"""The byte ranges of a file whose checksums this process has verified."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

TO_THE_END = 2**63 - 1


class Checked:
    """The byte ranges of a file whose checksums are verified. The ranges are disjoint and ascending."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def covers(self, start: int, end: int) -> bool:
        """Whether all bytes from `start` to below `end` are verified."""
        at = bisect_right(self._starts, start) - 1
        return start >= end or (at >= 0 and self._ends[at] >= end)

    def add(self, start: int, end: int) -> None:
        """Mark the bytes from `start` to below `end` as verified."""
        first, after = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < after:
            start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
        self._starts[first:after], self._ends[first:after] = [start], [end]
