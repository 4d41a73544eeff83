"""The partition of records without a key: one at a time, and the next one drawn at random (KIP-480, KIP-794)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate


class StickyPartition:
    """The partition of one topic that records without a key go to now.

    `batch_bytes` is `batch.size`: after so many bytes another partition is drawn. `draw(n)` returns a random integer
    from 0 to n - 1.
    """

    def __init__(self, batch_bytes: int, draw: Callable[[int], int]) -> None:
        self._batch_bytes, self._draw = batch_bytes, draw
        self._partition: int | None = None
        self._bytes = 0
        self._weighted: tuple[Sequence[int], Sequence[int]] | None = None
        """Partitions, and the sums of their weights up to each. It is one value, so no interrupt tears it apart."""

    def current(self, partitions: int, available: Sequence[int]) -> int:
        """Return the partition, which is drawn if there is none yet.

        `available` are the partitions with a known leader. Without any, all `partitions` may be drawn.
        """
        if self._partition is None or self._partition >= partitions:
            self._partition, self._bytes = self._next(partitions, available), 0
        return self._partition

    def appended(self, size: int) -> None:
        """Count the bytes of a batch that went to the partition. After `batch.size` the next draw is due."""
        self._bytes += size
        if self._bytes >= self._batch_bytes:
            self._partition = None

    def weigh(self, waiting: Mapping[int, int], partitions: int) -> None:
        """Draw partitions by the number of batches that wait for each: the fewer wait, the more often it is drawn.

        `waiting` leaves out partitions whose broker takes no batches. If it has all of them with one number, or fewer
        than two exist, every partition is equally likely.
        """
        if partitions < 2 or not waiting or (len(waiting) == partitions and len(set(waiting.values())) == 1):
            self._weighted = None
            return
        most = max(waiting.values()) + 1
        self._weighted = list(waiting), list(accumulate(most - count for count in waiting.values()))

    def _next(self, partitions: int, available: Sequence[int]) -> int:
        if self._weighted is not None:
            weighted, sums = self._weighted
            return weighted[bisect_right(sums, self._draw(sums[-1]))]
        return available[self._draw(len(available))] if available else self._draw(partitions)
