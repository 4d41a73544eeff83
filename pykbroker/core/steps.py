"""Long computations split into steps: a generator that yields wherever other tasks may run.

A request for ten thousand partitions can take 100 ms and more. Code that decides, writes, replays or encodes so much is
a generator, and `world.turns` runs it in time slices of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

Steps = Generator[None, None, T]
"""The type of a computation in short steps. The generator's return value is the result."""


def finish(steps: Steps[T]) -> T:
    """Run the steps to the end without a pause and return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as finished:
        result: T = finished.value
        return result


def chosen(things: Iterable[T], predicate: Callable[[T], bool]) -> Steps[list[T]]:
    """Return the things for which the predicate is true, with one call in each step."""
    found = []
    for thing in things:
        if predicate(thing):
            found.append(thing)
        yield
    return found


def each(function: Callable[[T], R], things: Iterable[T]) -> Steps[list[R]]:
    """Return the function's result for each thing, with one call in each step."""
    results = []
    for thing in things:
        results.append(function(thing))
        yield
    return results
