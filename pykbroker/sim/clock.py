"""Virtual time. When no task can run, trio asks the clock how long to sleep, and the clock runs the next event."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

import trio

IDLE_POLLS = 4
"""The number of times that trio may poll its own wake-up pipe before a run counts as stuck."""
EVENTS_PER_COLLECTION = 50_000
"""The number of events between two garbage collections, so that a finaliser always runs at the same step."""


class VirtualClock(trio.abc.Clock):
    """The clock of a simulation, in seconds since its start. It calls `stuck` when no event and no deadline is left."""

    def __init__(self, stuck: Callable[[], None]) -> None:
        self.now = 0.0
        self.events = 0
        self._stuck = stuck
        self._agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()
        self._idle = 0

    def call_at(self, time_s: float, function: Callable[..., None], *args: Any) -> None:
        """Call a synchronous function at this time, when no task is runnable."""
        heappush(self._agenda, (max(time_s, self.now), next(self._order), function, args))

    def call_later(self, delay_s: float, function: Callable[..., None], *args: Any) -> None:
        """Call a synchronous function after a delay, when no task is runnable."""
        self.call_at(self.now + delay_s, function, *args)

    def start_clock(self) -> None:
        """Do nothing: the clock starts at 0."""

    def current_time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Run the next event, or jump to `deadline`, and return 0. trio calls this when no task is runnable."""
        agenda = self._agenda
        if agenda and agenda[0][0] <= deadline:
            self._idle = 0
            self._happen(*heappop(agenda))
        elif deadline < math.inf:
            self._idle = 0
            self.now = max(self.now, deadline)
        else:
            self._idle += 1
            if self._idle > IDLE_POLLS:
                self._idle = 0
                self._stuck()
        return 0

    def _happen(self, time_s: float, _order: int, function: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.now = time_s
        self.events += 1
        if self.events % EVENTS_PER_COLLECTION == 0:
            gc.collect()
        function(*args)
