"""The work of one state machine: requests and ticks run one after the other, in time slices of the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from pykbroker.core.steps import Steps
from pykbroker.world.turns import Turns, Unfinished


class Work:
    """A queue of computations in steps, of which the first is under way. `run` continues it after its first time slice.

    `failed` is called with an exception that no caller receives.
    """

    def __init__(self, turns: Turns, failed: Callable[[Exception], None]) -> None:
        self._turns, self._failed = turns, failed
        self._steps: deque[Steps[None]] = deque()
        self._more, self._idle = trio.Event(), trio.Event()

    @property
    def under_way(self) -> bool:
        """Whether a computation is unfinished."""
        return bool(self._steps)

    def do(self, steps: Steps[None]) -> None:
        """Run the steps for one time slice. Queue them if others are unfinished, or if one slice is not enough."""
        if self._steps or self._turns.begin(steps) is Unfinished.UNFINISHED:
            if not self._steps:
                self._idle = trio.Event()
            self._steps.append(steps)
            self._more.set()

    def clear(self) -> None:
        """Drop all unfinished steps."""
        self._steps.clear()

    async def wait_idle(self) -> None:
        """Wait until the queue is empty."""
        while self._steps:
            await self._idle.wait()

    async def run(self, on_idle: Callable[[], None]) -> None:
        """Continue unfinished steps, until cancelled. `on_idle` is called whenever the queue becomes empty."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._steps:
                try:
                    await self._turns.walk(self._steps[0])
                except Exception as error:  # noqa: BLE001 - the owner of the shell logs it
                    self._failed(error)
                if self._steps:  # `clear` may have emptied the queue during the walk
                    self._steps.popleft()
            self._idle.set()
            on_idle()
