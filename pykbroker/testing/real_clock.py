"""The clock of a broker for tests, which freezegun does not stop.

With frozen clocks, a broker would neither answer a waiting Fetch nor expire a session. It would also refuse the records
of clients in C, which have the real time.
"""

from __future__ import annotations

import trio
from msgspec.structs import replace

from pykbroker.testing.real_time import RealTime
from pykbroker.world.world import World


class RealClock(trio.abc.Clock):
    """A clock for `trio.run`."""

    def start_clock(self) -> None:
        """Do nothing: the clock always runs."""

    def current_time(self) -> float:
        """Return the seconds since some point in the past."""
        return RealTime.perf_counter()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds until a deadline."""
        return deadline - RealTime.perf_counter()


def in_real_time(world: World) -> World:
    """Return the world with clocks that freezegun does not stop."""
    return replace(world, wall_ms=lambda: RealTime.time_ns() // 1_000_000, ticks_ns=RealTime.perf_counter_ns)
