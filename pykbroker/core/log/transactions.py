"""The transactions of one log and its last stable offset (KIP-98).

1. A transaction is open from its first data batch to its marker. The last stable offset is at most the first offset of
   any open transaction.
2. A transaction whose marker is written still counts as open until the marker is below the high watermark, since the
   marker may still be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    Consumers skip data of `producer_id` between its first and last offset, the marker's offset.

    `last_stable_offset` is the log's last stable offset just after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class OpenTransactions:
    """The first offsets of open transactions, in the order in which they began."""

    __slots__ = ("_decided", "_open")

    def __init__(self, open_first_offsets: Iterable[tuple[int, int]] = ()) -> None:
        """Start from `open_first_offsets`: (producer id, first offset), in any order."""
        self._open: dict[int, int] = dict(sorted(open_first_offsets, key=lambda one: one[1]))
        self._decided: list[tuple[int, int]] = []  # (first offset, marker's offset)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Record a transaction whose first data batch was written."""
        self._open[producer_id] = first_offset

    def decide(self, producer_id: int, marker_offset: int, aborted: bool) -> AbortedTransaction | None:
        """Record a marker that was written. Return the aborted transaction that consumers must skip, or None."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._decided.append((first_offset, marker_offset))
        if not aborted:
            return None
        # Transactions are in the order of their first offsets, so that the first one limits the last stable offset.
        stable = next(iter(self._open.values()), marker_offset + 1)
        return AbortedTransaction(producer_id, first_offset, marker_offset, stable)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which every transaction is decided. It is at most `high_watermark`."""
        if self._decided:
            self._decided = [one for one in self._decided if one[1] >= high_watermark]
        if not self._open and not self._decided:
            return high_watermark
        return min(high_watermark, *self._open.values(), *(first for first, _ in self._decided))
