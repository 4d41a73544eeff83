"""The delay between a failed log-in and its response, which ends for a few clients at a time.

A thousand clients that fail at once come to their end at once, too. If all of them were answered and disconnected in
one step of the event loop, other clients would wait for it.
"""

from __future__ import annotations

from collections import deque

import trio

from pykbroker.server.shared import Tasks

ENDS_MAX = 4
"""The number of delays that end in one step of the event loop. What follows takes some 0.1 ms for each client."""


class LateEnds:
    """The clients that wait for the same delay, in seconds."""

    def __init__(self, delay_s: float, tasks: Tasks) -> None:
        self._delay_s, self._tasks = delay_s, tasks
        self._due_at: deque[float] = deque()
        self._waiting = trio.lowlevel.ParkingLot()

    async def wait(self) -> None:
        """Wait for the delay, and then until at most `ENDS_MAX` clients are served in this step of the event loop."""
        self._due_at.append(trio.current_time() + self._delay_s)
        if len(self._due_at) == 1:
            self._tasks.start_soon(self._end)
        await self._waiting.park()

    async def _end(self) -> None:
        """End the delays until none is left."""
        due_at = self._due_at
        while due_at:
            await trio.sleep_until(due_at[0])
            for _ in range(ENDS_MAX):
                self._waiting.unpark()
                due_at.popleft()
                if not due_at or due_at[0] > trio.current_time():
                    break
