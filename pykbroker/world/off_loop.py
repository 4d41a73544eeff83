"""The seam for work that would block the event loop: waiting for the kernel, or long computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class OffLoop(Protocol):
    """A caller of synchronous functions off the event loop, such as in threads."""

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Return the result of `function(*args)`, or raise its error. A cancellation never interrupts the function."""
