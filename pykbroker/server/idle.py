"""The closing of idle and slow connections. One task checks them once a second, so that requests need no timers.

1. As in Kafka, a connection is idle if no byte was received or sent for `connections.max.idle.ms`, even while a request
   waits for its response. One idle connection is closed in each pass of the event loop, the longest idle first.
2. A client that has sent the start of a request must continue to send it, with limited pauses and at a minimum rate. A
   connection is never timed out while the broker itself has stopped reading from it.
3. While the memory budget is exhausted, these times are shorter, and connections of clients that do not read their
   replies are closed too. They are closed one after the other, the longest idle first, until the budget has room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import trio

from pykbroker.server.budget import Budget, Holder
from pykbroker.server.connection import Connection
from pykbroker.server.ending import ConnectionEnding
from pykbroker.world.rate_limited_warning import RateLimitedWarning

LOOK_S = 1
REQUEST_QUIET_S_MAX = 30
REQUEST_BYTES_S_MIN = 1024
"""The minimum average rate over `REQUEST_QUIET_S_MAX` at which a client must send a request."""
SPENT_QUIET_S_MAX = 5
SPENT_BYTES_S_MIN = 1 << 20
"""The minimum rate while the memory budget is exhausted, when large frames are received one after the other."""
SECOND_NS = 1_000_000_000

logger = logging.getLogger(__name__)


class Progress:
    """The progress of a connection that holds memory: of receiving its incomplete frame, and of sending its replies."""

    __slots__ = ("begun_at", "came_at", "have", "sent_at", "since", "since_have", "unsent_bytes")

    def __init__(self, connection: Holder) -> None:
        self.begin(connection)
        self.unsent_bytes, self.sent_at = connection.unsent_bytes, connection.moved_at

    def begin(self, connection: Holder) -> None:
        """Start the measurement again for another incomplete frame."""
        self.begun_at, self.since = connection.begun_at, connection.begun_at or 0
        self.have, self.since_have = connection.incomplete_bytes, 0
        self.came_at = connection.moved_at

    def look(self, connection: Holder, now: int) -> None:
        """Note the bytes that were received and sent since the last check."""
        if connection.unsent_bytes < self.unsent_bytes or not self.unsent_bytes:
            self.sent_at = now
        self.unsent_bytes = connection.unsent_bytes
        if connection.begun_at != self.begun_at:
            self.begin(connection)
        if connection.incomplete_bytes != self.have:
            self.have, self.came_at = connection.incomplete_bytes, now
        if not connection.wants_input or connection.wants_turn or connection.unsent_bytes:
            self.came_at = now
            self.measure_anew(now)

    def measure_anew(self, now: int) -> None:
        """Restart the measurement of the rate at `now`."""
        self.since, self.since_have = now, self.have

    @property
    def quiet_since(self) -> int:
        """Return the time of the client's last progress."""
        return self.sent_at if self.unsent_bytes else self.came_at

    def verdict(self, now: int, *, spent: bool) -> ConnectionEnding | None:
        """Return the reason why the connection must be closed, or None."""
        quiet_s_max, bytes_s_min = REQUEST_QUIET_S_MAX, REQUEST_BYTES_S_MIN
        if spent:
            quiet_s_max, bytes_s_min = SPENT_QUIET_S_MAX, SPENT_BYTES_S_MIN
            if self.unsent_bytes and now - self.sent_at >= quiet_s_max * SECOND_NS:
                return ConnectionEnding.SLOW_READER
        if self.begun_at is None:
            return None
        if now - self.came_at >= quiet_s_max * SECOND_NS:
            return ConnectionEnding.SLOW_REQUEST
        age = now - self.since
        if age >= quiet_s_max * SECOND_NS:
            if (self.have - self.since_have) * SECOND_NS < bytes_s_min * age:
                return ConnectionEnding.SLOW_REQUEST
            self.measure_anew(now)
        return None


class Watchman:
    """The task that closes idle and slow connections. A negative `idle_ms_max` means no limit on idle time.

    `end_overdue` closes one connection whose client has not logged in in time, and returns whether there was one.
    """

    def __init__(
        self,
        connections: Collection[Connection],
        budget: Budget,
        idle_ms_max: int,
        ticks: Callable[[], int],
        end_overdue: Callable[[int], bool] = lambda now: False,
    ) -> None:
        self._end_overdue = end_overdue
        self._connections, self._budget, self._ticks = connections, budget, ticks
        self._idle_ns_max = idle_ms_max * 1_000_000
        self._idle_due = ticks()
        self._progress: dict[Holder, Progress] = {}
        self._was_spent = False
        self._slow = RateLimitedWarning(logger, ticks)

    async def run(self) -> None:
        """Check once a second until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            self._close_slow(self._ticks())
            while self._end_overdue(self._ticks()):
                await trio.lowlevel.checkpoint()  # 10,000 ends took 0.3 s of the event loop at once
            if self._idle_ns_max >= 0 and self._ticks() >= self._idle_due:
                await self._close_idle()

    def _close_slow(self, now: int) -> None:
        """Check the connections that the budget charges. Only they can have incomplete frames or unsent replies."""
        before, self._progress = self._progress, {}
        was_spent, self._was_spent = self._was_spent, self._budget.is_spent
        for connection in self._budget.holders:
            progress = self._progress[connection] = before.get(connection) or Progress(connection)
            progress.look(connection, now)
            if self._was_spent != was_spent:
                progress.measure_anew(now)
        for connection, progress in sorted(self._progress.items(), key=lambda each: each[1].quiet_since):
            ending = progress.verdict(now, spent=self._budget.is_spent)
            if ending is not None and not connection.ended:
                self._slow.warn("closing the connection of %s: %s", connection.session, ending.value)
                connection.end(ending)

    async def _close_idle(self) -> None:
        """Close idle connections, one in each pass of the event loop. Set the time of the next check."""
        quiet_since = self._ticks() - self._idle_ns_max
        quiet = [connection for connection in self._connections if connection.moved_at <= quiet_since]
        for connection in sorted(quiet, key=lambda each: each.moved_at):
            if connection in self._connections and connection.moved_at <= quiet_since:
                logger.debug("closing the connection of %s: idle", connection.session)
                connection.end(ConnectionEnding.IDLE)
            await trio.lowlevel.checkpoint()
        oldest = min((each.moved_at for each in self._connections), default=self._ticks())
        self._idle_due = oldest + self._idle_ns_max
