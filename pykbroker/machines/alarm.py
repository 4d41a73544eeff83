"""The timer of one state machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

import trio


class Alarm:
    """A timer that calls `ring` at each deadline. Its owner calls `note_deadline` when a deadline may be new."""

    def __init__(self) -> None:
        self._alarm_ms = inf
        self._sooner = trio.Event()

    def note_deadline(self, deadline_ms: float) -> None:
        """Note a deadline, in ms of the monotonic clock. `run` wakes up if it is earlier than the one it waits for."""
        if deadline_ms < self._alarm_ms:
            self._sooner.set()

    async def run(
        self,
        deadline_ms: Callable[[], float],
        wait_idle: Callable[[], Awaitable[None]],
        ring: Callable[[float], Awaitable[None]],
    ) -> None:
        """Wait for each deadline and call `ring` with it, until cancelled.

        `deadline_ms` returns the next deadline. Before each wait, `wait_idle` waits until no request is being handled.
        """
        while True:
            await wait_idle()
            self._sooner = trio.Event()
            self._alarm_ms = alarm_ms = deadline_ms()
            with trio.move_on_at(alarm_ms / 1000) as scope:
                await self._sooner.wait()
            if scope.cancelled_caught:
                await ring(alarm_ms)
