"""The seam for work that would block the loop: waiting for the kernel, or long computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class OffLoop(Protocol):
    """A caller of plain functions away from the loop."""

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Return the result of `function(*args)`, or raise its error. A cancellation does not end it."""
