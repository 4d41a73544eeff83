"""The connections of clients that have not logged in, which get a slice of each pass of the event loop.

A thousand strangers that send at once would otherwise delay all other connections by the time that all of them take.
Addresses take turns, so that those of one address delay a newcomer of another one by one turn.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.world.fair_lock import FairQueue
from pykbroker.world.system_pump import NOTHING, SocketPump

SLICE_NS = 500_000
"""The time in one pass after which no further newcomer is served."""


class Newcomers:
    """The connections of a network that are served after all others. `ticks` returns ns of a monotonic clock."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self.pumps: dict[int, SocketPump] = {}
        """The pumps of these connections, by descriptor."""
        self.waiting: dict[SocketPump, int] = {}
        """The pumps whose sockets are ready, with the event that each was watched for."""
        self._queue = FairQueue[SocketPump]()

    def wait(self, pump: SocketPump) -> None:
        """Queue a pump whose socket is ready, and do not watch it until its turn.

        The poller reports a limited number of sockets at a time, which leaves room for those of others.
        """
        if pump not in self.waiting:
            self.waiting[pump] = pump.watched
            self._queue.add(pump.key, pump)
            pump.watch(NOTHING)

    def turn(self) -> None:
        """Serve pumps in the order of their queue until the slice is over."""
        begun, waiting = self._ticks(), self.waiting
        while waiting:
            pump = self._queue.pop()
            event = waiting.pop(pump)
            if pump.is_open and pump.watched == NOTHING:  # else the poller reports what it is watched for since
                pump.watch(event)
                pump.turn()
            if self._ticks() - begun > SLICE_NS:
                return
