"""Timeouts as data: a deadline for each key, of which the earliest is always known.

A key whose deadline moves away, as a heartbeat moves it, costs a dict's assignment: its place in the heap is put right
when that place comes up. So the heap holds a key twice only where its deadline came nearer.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """Deadlines in ms of whatever clock the caller keeps. Keys due together come in the order in which they were set;
    one that was put off may come later, since it is only looked at where it was due before.
    """

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._places: dict[K, float] = {}  # where the heap has a key, at the latest
        self._sequence = 0

    def set(self, key: K, deadline_ms: float) -> None:
        """From now on the key is due at this time, and at no other."""
        self._deadlines[key] = deadline_ms
        if self._places.get(key, inf) > deadline_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """The key is not due at all."""
        self._deadlines.pop(key, None)

    def get(self, key: K) -> float:
        """When the key is due; inf for never."""
        return self._deadlines.get(key, inf)

    @property
    def deadline_ms(self) -> float:
        """When the first key is due; inf when there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now_ms: float) -> K | None:
        """A key that is due, which is then no longer set; None when none is."""
        if self.deadline_ms > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._deadlines[key]
        self._places.pop(key, None)
        return key

    def __len__(self) -> int:
        return len(self._deadlines)

    def _settle(self) -> None:
        """Make the top of the heap a key at its true place."""
        while self._heap:
            place, _, key = self._heap[0]
            deadline = self._deadlines.get(key)
            if deadline == place:
                return
            heappop(self._heap)
            if self._places.get(key) == place:
                del self._places[key]
                if deadline is not None:
                    self._push(key, deadline)

    def _push(self, key: K, deadline_ms: float) -> None:
        self._sequence += 1
        self._places[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._sequence, key))
