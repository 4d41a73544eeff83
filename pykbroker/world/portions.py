"""The splitting of thousands of items into portions (lists), so that other tasks run between two portions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

AT_ONCE_MAX = 256
"""The maximum number of items, such as logs, that are handled before other tasks may run."""


def portions(things: Iterable[T], at_once_max: int = AT_ONCE_MAX) -> Iterator[list[T]]:
    """Yield the items in lists of at most `at_once_max`. All items are collected before the first list."""
    everything = list(things)
    for at in range(0, len(everything), at_once_max):
        yield everything[at : at + at_once_max]
