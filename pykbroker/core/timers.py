"""Timeouts as data: one deadline for each key; the earliest deadline is always known.

Postponing a deadline, as a heartbeat does, costs one assignment to a dict: the heap is corrected when the old position
reaches its top. The heap holds a key twice only if the key's deadline has been brought forward.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """Deadlines in ms of the caller's clock. Keys with equal deadlines are returned in the order of `set`.

    A postponed key may be returned later than that, because its heap position is corrected only when its old deadline
    is reached.
    """

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._places: dict[K, float] = {}  # the key's position in the heap
        self._sequence = 0

    def set(self, key: K, deadline_ms: float) -> None:
        """Set the deadline of the key, replacing any earlier one."""
        self._deadlines[key] = deadline_ms
        if self._places.get(key, inf) > deadline_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Remove the key's deadline."""
        self._deadlines.pop(key, None)

    def get(self, key: K) -> float:
        """Return the deadline of the key, or inf if it has none."""
        return self._deadlines.get(key, inf)

    @property
    def deadline_ms(self) -> float:
        """Return the earliest deadline, or inf if there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now_ms: float) -> K | None:
        """Remove and return a key whose deadline has passed, or return None."""
        if self.deadline_ms > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._deadlines[key]
        self._places.pop(key, None)
        return key

    def __len__(self) -> int:
        return len(self._deadlines)

    def _settle(self) -> None:
        """Correct positions in the heap until the top is the key with the earliest deadline."""
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
