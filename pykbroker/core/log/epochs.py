"""The leader epochs of one log and the offsets that each of them wrote (KIP-101, KIP-279).

Entries are (epoch, start offset), both strictly ascending. An epoch ends where the next one starts; the last one ends
at the log end offset. Every epoch with a leader has an entry, even if nothing was appended in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter

import msgspec

from wire.sentinels import NO_LEADER_EPOCH, NO_OFFSET

EPOCH, START = itemgetter(0), itemgetter(1)


class OffsetAndEpoch(msgspec.Struct, frozen=True, order=True, gc=False):
    """An end offset of a log, and the leader epoch of the record before it. A snapshot's id is such a pair, too.

    A NamedTuple would take 0.15 us more to make, for each partition that a follower reads.
    """

    offset: int
    epoch: int


UNDEFINED = OffsetAndEpoch(NO_OFFSET, NO_LEADER_EPOCH)


class LeaderEpochs:
    """The leader epochs of one log.

    A method that may change them returns whether it did, so that the caller can store them.
    """

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        self.latest = NO_LEADER_EPOCH
        """The newest epoch."""
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Return (epoch, start offset) pairs, ascending."""
        return tuple(self._entries)

    @property
    def starts(self) -> list[int]:
        """Return the start offsets of the epochs, ascending."""
        return [start for _, start in self._entries]

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin `epoch` at `start_offset`, and remove conflicting entries that other leaders wrote."""
        if self._entries and self._entries[-1][0] == epoch and self._entries[-1][1] <= start_offset:
            return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start_offset):
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch:
        """Return the largest epoch that is not above `epoch`, with its end offset; UNDEFINED if `epoch` is unknown."""
        if epoch == self.latest != NO_LEADER_EPOCH:
            return OffsetAndEpoch(log_end_offset, epoch)
        above = bisect_right(self._entries, epoch, key=EPOCH)
        if epoch == NO_LEADER_EPOCH or above == len(self._entries):
            return UNDEFINED
        # An epoch before the first entry ends where that entry begins, as in Kafka.
        return OffsetAndEpoch(self._entries[above][1], self._entries[above - 1][0] if above else epoch)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1 for an offset before the first entry."""
        above = bisect_right(self._entries, offset, key=START)
        return self._entries[above - 1][0] if above else NO_LEADER_EPOCH

    def clear(self) -> None:
        """Remove all epochs, because the log begins anew: another log wrote them."""
        self._entries.clear()
        self.latest = NO_LEADER_EPOCH

    def truncate_end(self, log_end_offset: int) -> bool:
        """Remove the epochs that start at `log_end_offset` or above."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= log_end_offset:
            self._entries.pop()
        self.latest = self._entries[-1][0] if self._entries else NO_LEADER_EPOCH
        return len(self._entries) != before

    def truncate_start(self, log_start_offset: int) -> bool:
        """Remove the epochs that end at `log_start_offset` or below. The next epoch then begins there."""
        above = bisect_right(self._entries, log_start_offset, key=START)
        if not above or (above == 1 and self._entries[0][1] == log_start_offset):
            return False
        self._entries[:above] = [(self._entries[above - 1][0], log_start_offset)]
        return True
