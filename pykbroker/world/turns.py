"""Time-slicing of the event loop: long work runs in shares, and all long work together gets one share at a time.

Long work is a generator that yields where other tasks may run. Work that fits in its first share is done at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar

import trio

T = TypeVar("T")

SHARE_NS = 4_000_000
"""The time for which one request may keep the loop at once."""
STEPS_A_LOOK = 16
"""The number of steps between two readings of the clock."""


class Unfinished(Enum):
    """The type of `UNFINISHED`, which stands for a result that does not exist yet."""

    UNFINISHED = 1


def advance(steps: Generator[None, None, T], ticks: Callable[[], int]) -> T | Unfinished:
    """Run one share and return the result, or UNFINISHED. `ticks` returns nanoseconds."""
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
    """The scheduler of one broker's long work. `ticks` returns the nanoseconds of a monotonic clock."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self.ticks = ticks
        self._turn = trio.Lock()

    def begin(self, steps: Generator[None, None, T]) -> T | Unfinished:
        """Run one share at once and return the result, or UNFINISHED."""
        return advance(steps, self.ticks)

    async def walk(self, steps: Generator[None, None, Any]) -> Any:
        """Run to the end, letting other tasks run after each share, and return the result."""
        result: Any = Unfinished.UNFINISHED
        while result is Unfinished.UNFINISHED:
            async with self._turn:
                result = advance(steps, self.ticks)
        return result

    async def through(self, steps: Generator[None, None, Any]) -> Any:
        """Run one share at once, the rest as `walk` does, and return the result."""
        result = advance(steps, self.ticks)
        return await self.walk(steps) if result is Unfinished.UNFINISHED else result
