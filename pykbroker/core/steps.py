"""Work that takes long, cut into steps: a generator yields where others may have their turn.

A request for ten thousand partitions, say, takes 100 ms and more. Whatever decides, writes, replays or encodes for so
many is a generator, which `world.turns` goes through a share of the loop at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

Steps = Generator[None, None, T]
"""Work of which each step is short; what it returns is the result."""


def finish(steps: Steps[T]) -> T:
    """Go on to the end without a pause; the result."""
    try:
        while True:
            next(steps)
    except StopIteration as finished:
        result: T = finished.value
        return result


def each(function: Callable[[T], R], things: Iterable[T]) -> Steps[list[R]]:
    """Return what the function gives for each of many things, one a step."""
    results = []
    for thing in things:
        results.append(function(thing))
        yield
    return results
