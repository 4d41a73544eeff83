"""The random times between the faults of a simulation."""

from __future__ import annotations

from random import Random

import trio

PACES_S = (0.3, 1.0, 5.0)


class FaultPace:
    """The random times between two faults, and the random durations of faults. Each seed has its own averages."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._average_s = dice.choice(PACES_S)

    async def wait_before(self) -> None:
        """Wait until the next fault is due."""
        await trio.sleep(self._dice.expovariate(1 / self._average_s))

    async def wait_during(self) -> None:
        await trio.sleep(self._dice.uniform(0.1, 2) * min(1.0, self._average_s))
