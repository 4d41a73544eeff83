"""Thousands of logs in portions, between which others have their turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

AT_ONCE_MAX = 256
"""Logs that are looked at in one step of the loop."""


def portions(things: Iterable[T], at_once_max: int = AT_ONCE_MAX) -> Iterator[list[T]]:
    """All that there are now, in lists of a few; the caller lets others in after each."""
    everything = list(things)
    for at in range(0, len(everything), at_once_max):
        yield everything[at : at + at_once_max]
