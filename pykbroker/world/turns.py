"""Time slices of the event loop: long work runs one slice (share) at a time, and other tasks run between two slices.

Long work is a generator that yields where other tasks may run. Work that ends within its first slice delays no other
task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar

import trio

T = TypeVar("T")

SHARE_NS = 4_000_000
"""The duration of a time slice."""
STEPS_A_LOOK = 16
"""The number of generator steps between two readings of the clock."""


class Unfinished(Enum):
    """The type of `UNFINISHED`, the result of work that has not ended."""

    UNFINISHED = 1


def advance(steps: Generator[None, None, T], ticks: Callable[[], int]) -> T | Unfinished:
    """Run one time slice and return the result or UNFINISHED. `ticks` returns the ns of a monotonic clock."""
    ends_at = ticks() + SHARE_NS
    try:
        while True:
            for _ in range(STEPS_A_LOOK):
                next(steps)
            if ticks() > ends_at:
                return Unfinished.UNFINISHED
    except StopIteration as finished:
        result: T = finished.value
        return result


class Turns:
    """The scheduler of a broker's long work, which runs one time slice at a time.

    `ticks` returns the ns of a monotonic clock.
    """

    def __init__(self, ticks: Callable[[], int]) -> None:
        self.ticks = ticks
        self._turn = trio.Lock()

    def begin(self, steps: Generator[None, None, T]) -> T | Unfinished:
        """Run one time slice at once and return the result or UNFINISHED."""
        return advance(steps, self.ticks)

    async def walk(self, steps: Generator[None, None, Any]) -> Any:
        """Run the work to its end and return its result. Other tasks run after each time slice."""
        result: Any = Unfinished.UNFINISHED
        while result is Unfinished.UNFINISHED:
            # The lock is passed on in the order of its waiters, so that long requests advance by one time slice each.
            async with self._turn:
                result = advance(steps, self.ticks)
        return result

    async def through(self, steps: Generator[None, None, Any]) -> Any:
        """Run one time slice at once and the rest as `walk` does, and return the result."""
        result = advance(steps, self.ticks)
        return await self.walk(steps) if result is Unfinished.UNFINISHED else result
