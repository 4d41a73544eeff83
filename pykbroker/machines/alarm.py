"""The deadlines of one machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

import trio


class Alarm:
    """Calls `ring` at each deadline. `look` must be called whenever the deadline may have come nearer."""

    def __init__(self) -> None:
        self._alarm_ms = inf
        self._sooner = trio.Event()

    def look(self, deadline_ms: float) -> None:
        """Note a deadline, in ms of the monotonic clock."""
        if deadline_ms < self._alarm_ms:
            self._sooner.set()

    async def run(
        self,
        deadline_ms: Callable[[], float],
        rested: Callable[[], Awaitable[None]],
        ring: Callable[[float], Awaitable[None]],
    ) -> None:
        """Wait for each deadline and call `ring` with it, between requests, until cancelled."""
        while True:
            await rested()
            self._sooner = trio.Event()
            self._alarm_ms = alarm_ms = deadline_ms()
            with trio.move_on_at(alarm_ms / 1000) as scope:
                await self._sooner.wait()
            if scope.cancelled_caught:
                await ring(alarm_ms)
