"""The work of one machine: one thing after the other, in time slices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from pykbroker.core.steps import Steps
from pykbroker.world.turns import Turns, Unfinished


class Work:
    """Steps that are under way, and those that wait behind them. `run` continues what one time slice has not finished.

    `failed` is called with an exception that no caller receives.
    """

    def __init__(self, turns: Turns, failed: Callable[[Exception], None]) -> None:
        self._turns, self._failed = turns, failed
        self._steps: deque[Steps[None]] = deque()
        self._more, self._rested = trio.Event(), trio.Event()

    @property
    def under_way(self) -> bool:
        """Whether steps are unfinished."""
        return bool(self._steps)

    def do(self, steps: Steps[None]) -> None:
        """Run the steps for one time slice. Queue them if other steps are under way or if they need longer."""
        if self._steps or self._turns.begin(steps) is Unfinished.UNFINISHED:
            if not self._steps:
                self._rested = trio.Event()
            self._steps.append(steps)
            self._more.set()

    def clear(self) -> None:
        """Drop all unfinished steps."""
        self._steps.clear()

    async def wait_rested(self) -> None:
        """Wait until no steps are under way."""
        while self._steps:
            await self._rested.wait()

    async def run(self, rested: Callable[[], None]) -> None:
        """Continue unfinished steps, until cancelled. `rested` is called whenever all are finished."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._steps:
                try:
                    await self._turns.walk(self._steps[0])
                except Exception as error:  # noqa: BLE001 - the owner of the shell logs it
                    self._failed(error)
                if self._steps:  # none is left after `clear`
                    self._steps.popleft()
            self._rested.set()
            rested()
