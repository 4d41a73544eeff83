"""Waits of a fault until the cluster has a certain state, each with a time limit."""

from __future__ import annotations

from collections.abc import Callable

import trio

FILL_S_MAX = 20.0
"""The longest time in seconds to wait until an emptied broker is filled, or until ISRs are full."""


async def holds(condition: Callable[[], bool], seconds_max: float, look_s: float) -> bool:
    """Wait until a condition holds. Return whether it does within `seconds_max`."""
    with trio.move_on_after(seconds_max):
        while not condition():  # noqa: ASYNC110 - nothing tells a change of another process
            await trio.sleep(look_s)
        return True
    return False
