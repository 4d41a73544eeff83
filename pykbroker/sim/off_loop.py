"""Simulated work off the event loop. It takes virtual time, then runs on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

import trio

T = TypeVar("T")


class InlineOffLoop:
    """An `OffLoop` that runs functions on the event loop. A call takes `wait_s` on average.

    With 0 it does not wait, and needs no event loop.
    """

    def __init__(self, dice: Random | None = None, wait_s: float = 0.0) -> None:
        self._dice, self._wait_s = dice or Random(0), wait_s

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Wait, then call the function, even if the caller is cancelled."""
        if self._wait_s:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._dice.expovariate(1 / self._wait_s))
        return function(*args)
