"""Closes connections on which nothing moves. No request notices: a task looks around once a second.

1. Idle is a connection on which no byte came or went for `connections.max.idle.ms`, whatever waits there for an answer,
   as in Kafka. They go one in a pass of the loop, the one that was quiet longest first.
2. A request that has begun must go on coming: some bytes within a while, and at a least rate. Who is not read by this
   broker is not to blame.
3. While the budget is spent, patience is short, and it ends also for who does not take his answers: for one after the
   other, the one that did nothing longest first, until the budget is spent no more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import trio

from pykbroker.server.budget import Budget, Holder
from pykbroker.server.connection import Connection
from pykbroker.server.ending import ConnectionEnding
from pykbroker.world.seldom import Seldom

LOOK_S = 1
REQUEST_QUIET_S_MAX = 30
REQUEST_BYTES_S_MIN = 1024
"""On average, over REQUEST_QUIET_S_MAX."""
SPENT_QUIET_S_MAX = 5
SPENT_BYTES_S_MIN = 1 << 20
"""Instead of those, while the budget is spent: one large frame after the other has its turn."""
SECOND_NS = 1_000_000_000

logger = logging.getLogger(__name__)


class Progress:
    """What was seen of a connection that holds memory: of its incomplete frame, and of what it is owed."""

    __slots__ = ("begun_at", "came_at", "have", "owed_bytes", "sent_at", "since", "since_have")

    def __init__(self, connection: Holder) -> None:
        self.begin(connection)
        self.owed_bytes, self.sent_at = connection.owed_bytes, connection.moved_at

    def begin(self, connection: Holder) -> None:
        """Another frame is incomplete now."""
        self.begun_at, self.since = connection.begun_at, connection.begun_at or 0
        self.have, self.since_have = connection.incomplete_bytes, 0
        self.came_at = connection.moved_at

    def look(self, connection: Holder, now: int) -> None:
        """Note what has moved."""
        if connection.owed_bytes < self.owed_bytes or not self.owed_bytes:
            self.sent_at = now
        self.owed_bytes = connection.owed_bytes
        if connection.begun_at != self.begun_at:
            self.begin(connection)
        if connection.incomplete_bytes != self.have:
            self.have, self.came_at = connection.incomplete_bytes, now
        if not connection.wants_input or connection.behind or connection.owed_bytes:
            self.came_at = now
            self.measure_anew(now)

    def measure_anew(self, now: int) -> None:
        """The rate counts from here on."""
        self.since, self.since_have = now, self.have

    @property
    def quiet_since(self) -> int:
        """When it last did what it should."""
        return self.sent_at if self.owed_bytes else self.came_at

    def verdict(self, now: int, *, spent: bool) -> ConnectionEnding | None:
        """Why the connection has to go, if it has to."""
        quiet_s_max, bytes_s_min = REQUEST_QUIET_S_MAX, REQUEST_BYTES_S_MIN
        if spent:
            quiet_s_max, bytes_s_min = SPENT_QUIET_S_MAX, SPENT_BYTES_S_MIN
            if self.owed_bytes and now - self.sent_at >= quiet_s_max * SECOND_NS:
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
    """`connections` are those that are open. `idle_ms_max` below 0: they may idle for ever."""

    def __init__(
        self, connections: Collection[Connection], budget: Budget, idle_ms_max: int, ticks: Callable[[], int]
    ) -> None:
        self._connections, self._budget, self._ticks = connections, budget, ticks
        self._idle_ns_max = idle_ms_max * 1_000_000
        self._idle_due = ticks()
        self._progress: dict[Holder, Progress] = {}
        self._was_spent = False
        self._slow = Seldom(logger, ticks)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            self._close_slow(self._ticks())
            if self._idle_ns_max >= 0 and self._ticks() >= self._idle_due:
                await self._close_idle()

    def _close_slow(self, now: int) -> None:
        """Look at those that hold memory; it is they whose frames or answers are incomplete."""
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
                self._slow.warn("closing the connection of %s: %s", connection.peer, ending.value)
                connection.end(ending)

    async def _close_idle(self) -> None:
        """One in a pass of the loop. Before the next one can be idle for long enough, there is nothing to look for."""
        quiet_since = self._ticks() - self._idle_ns_max
        quiet = [connection for connection in self._connections if connection.moved_at <= quiet_since]
        for connection in sorted(quiet, key=lambda each: each.moved_at):
            if connection in self._connections and connection.moved_at <= quiet_since:
                logger.debug("closing the connection of %s: idle", connection.peer)
                connection.end(ConnectionEnding.IDLE)
            await trio.lowlevel.checkpoint()
        oldest = min((each.moved_at for each in self._connections), default=self._ticks())
        self._idle_due = oldest + self._idle_ns_max
