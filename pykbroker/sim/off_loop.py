"""Work off the loop in a simulation: it costs virtual time, then happens at once."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

import trio

T = TypeVar("T")


class InlineOffLoop:
    """Work off the loop, run inline. Each call takes `wait_s` on average; with 0 it does not wait and needs no loop."""

    def __init__(self, dice: Random | None = None, wait_s: float = 0.0) -> None:
        self._dice, self._wait_s = dice or Random(0), wait_s

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Call the function to its end, even if the caller is cancelled."""
        if self._wait_s:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._dice.expovariate(1 / self._wait_s))
        return function(*args)
