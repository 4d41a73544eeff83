"""The loop, shared out: what takes long has one share of it at a time, and all that takes long has one share together.

Such work is a generator that yields where others may have their turn; what is done within the first share is done at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar

import trio

T = TypeVar("T")

SHARE_NS = 4_000_000
"""How long one request keeps the loop at a time."""
STEPS_A_LOOK = 16
"""So many steps for each look at the clock."""


class Unfinished(Enum):
    """Stands for a result that is not there yet."""

    UNFINISHED = 1


def advance(steps: Generator[None, None, T], ticks: Callable[[], int]) -> T | Unfinished:
    """Go on for one share: the result, or UNFINISHED. `ticks` gives ns."""
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
    """`ticks` gives ns of a clock that only rises. All of a broker that goes through steps shares one of these."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self.ticks = ticks
        self._turn = trio.Lock()

    def begin(self, steps: Generator[None, None, T]) -> T | Unfinished:
        """Do one share at once: the result, or UNFINISHED."""
        return advance(steps, self.ticks)

    async def walk(self, steps: Generator[None, None, Any]) -> Any:
        """Go on to the end; the result. Others have their turn after each share."""
        result: Any = Unfinished.UNFINISHED
        while result is Unfinished.UNFINISHED:
            async with self._turn:
                result = advance(steps, self.ticks)
        return result

    async def through(self, steps: Generator[None, None, Any]) -> Any:
        """As `begin`, and then as `walk` for what is not done by then."""
        result = advance(steps, self.ticks)
        return await self.walk(steps) if result is Unfinished.UNFINISHED else result
