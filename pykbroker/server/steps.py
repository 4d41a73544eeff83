"""Answers that take long, a share at a time: a generator yields where others may have their turn.

A request for ten thousand partitions, say, takes 100 ms and more. Its handler is a generator, as is the encoder of its
answer; what is done within the first share is answered at once, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from enum import Enum
from typing import Any, TypeVar

import trio

T = TypeVar("T")
R = TypeVar("R")

SHARE_NS = 4_000_000
"""How long one request keeps the loop at a time."""
STEPS_A_LOOK = 16
"""So many steps for each look at the clock."""


class State(Enum):
    """What there is instead of a result."""

    UNFINISHED = 1


def advance(steps: Generator[None, None, T], ticks: Callable[[], int]) -> T | State:
    """Go on for one share: the result, or UNFINISHED. `ticks` gives ns."""
    ends_at = ticks() + SHARE_NS
    try:
        while True:
            for _ in range(STEPS_A_LOOK):
                next(steps)
            if ticks() > ends_at:
                return State.UNFINISHED
    except StopIteration as finished:
        result: T = finished.value
        return result


def each(function: Callable[[T], R], things: Iterable[T]) -> Generator[None, None, list[R]]:
    """What the function gives for each of many things, one a step."""
    results = []
    for thing in things:
        results.append(function(thing))
        yield
    return results


async def walk(steps: Generator[None, None, Any], ticks: Callable[[], int], turn: trio.Lock) -> Any:
    """Go on to the end; the result. Others have their turn after each share: all who wait for `turn` have one together.
    """
    result: Any = State.UNFINISHED
    while result is State.UNFINISHED:
        async with turn:
            result = advance(steps, ticks)
    return result
