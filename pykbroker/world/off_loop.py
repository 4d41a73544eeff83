"""The seam for work that would hold up the loop: waiting for the kernel, or long computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class OffLoop(Protocol):
    """Runs a plain function away from the loop."""

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """The result of `function(*args)`, or what it raised. It runs to its end even if the caller is cancelled."""
