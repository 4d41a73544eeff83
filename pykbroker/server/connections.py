"""The open connections of a broker, and the objects that they share."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from pykbroker.core.security.session import Session
from pykbroker.server.authentications import Authentications
from pykbroker.server.budget import Budget
from pykbroker.server.connection import Connection
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.idle import Watchman
from pykbroker.server.limits import UNLIMITED, Limits
from pykbroker.server.metrics import RouteStatistics, ServerStatistics
from pykbroker.server.quotas import ConnectionQuotas
from pykbroker.server.shared import Shared, Tasks
from pykbroker.server.strangers import Strangers
from pykbroker.server.table import ApiTable
from pykbroker.world.net import Pump
from pykbroker.world.rate_limited_warning import RateLimitedWarning
from pykbroker.world.turns import Turns

if TYPE_CHECKING:
    from pykbroker.server.login.logins import Logins
    from pykbroker.server.login.table import SaslListener

logger = logging.getLogger(__name__)


def ignore(_session: Session) -> None:
    """Do nothing."""


class NoLogins(msgspec.Struct, frozen=True):
    """The counts of a broker without listeners with SASL, as those of `Logins`."""

    counts: Mapping[str, Authentications] = {}
    bytes: int = 0


NO_LOGINS = NoLogins()


class Connections:
    """All open connections of some listeners, and the counters of their requests.

    These listeners have the table, the limits and the memory budget in common. `connections_max` returns the number of
    connections for which file descriptors are free now. `on_closed` is called with the session of each connection that
    has closed.
    """

    def __init__(
        self,
        table: ApiTable,
        tasks: Tasks,
        turns: Turns,
        limits: Limits,
        connections_max: Callable[[], int] = lambda: UNLIMITED,
        on_closed: Callable[[Session], None] = ignore,
    ) -> None:
        self._limits, self._connections_max, self._on_closed = limits, connections_max, on_closed
        self._budget = Budget(limits.held_bytes_max, limits.held_requests_max)
        self.ticks = turns.ticks
        strangers = Strangers(turns.ticks)
        self._shared = Shared(table, tasks, turns, strangers, self._budget, limits.request_bytes_max, self._forget)
        self._logins: Logins | None = None
        """The log-ins of clients, from the first listener with SASL that has a client."""
        self._quotas = ConnectionQuotas(limits, self.ticks)
        self._open: dict[Connection, None] = {}  # in the order of their opening, so that a simulation can repeat it
        self._closed: Counter[ConnectionEnding] = Counter()
        self._accepted = self._refused = 0
        self.accept_waits = 0
        """The number of times that a client had to wait in the backlog."""
        self._too_many_of_host = RateLimitedWarning(logger, self.ticks)

    def __len__(self) -> int:
        return len(self._open)

    async def run(self) -> None:
        """Close idle and slow connections until cancelled."""
        watchman = Watchman(self._open, self._budget, self._limits.idle_ms_max, self.ticks, self._end_overdue)
        await watchman.run()

    def _end_overdue(self, now: int) -> bool:
        return self._logins is not None and self._logins.end_overdue(now)

    @property
    def logins(self) -> Logins:
        """Return the log-ins of clients. Their code is imported for the first client of a listener with SASL."""
        if self._logins is None:
            from pykbroker.server.login.logins import Logins

            self._logins = Logins(self._shared)
        return self._logins

    def limit(self, limits: Limits) -> None:
        """Apply new limits on connections. All other limits keep the values that they had at the start."""
        self._quotas.limit(limits)

    def has_room(self, listener: str) -> bool:
        """Whether another client may be accepted on this listener now."""
        return len(self._open) < self._connections_max() and self._quotas.has_room(listener)

    def make_room(self, listener: str) -> None:
        """End connections whose clients have not logged in for a while, if others wait for their places."""
        if self._logins is None:
            return
        if len(self._open) >= self._connections_max() or self._quotas.is_crowded:
            self._logins.end_slow(self.ticks())
        elif self._quotas.is_crowded_on(listener):
            self._logins.end_slow(self.ticks(), listener)

    def open(self, session: Session, pump: Pump, sasl: SaslListener | None = None) -> Connection | None:
        """Return a connection whose bytes `pump` moves, or None if the client's address has too many connections.

        With `sasl`, the client must log in before its first request.
        """
        if not self._quotas.admit(session):
            self._refused += 1
            self._too_many_of_host.warn("refusing %s: its address has max.connections.per.ip connections", session)
            return None
        connection = Connection(session, pump, self._shared)
        if sasl is not None:
            self.logins.begin(connection, sasl)
        self._open[connection] = None
        self._accepted += 1
        return connection

    def close_listener(self, name: str) -> int:
        """Close the connections of one listener, which accepts no more of them, and return how many they were."""
        found = [connection for connection in self._open if connection.session.listener == name]
        for connection in found:
            connection.end(ConnectionEnding.PEER)
        return len(found)

    def close(self) -> None:
        for connection in list(self._open):
            connection.end(ConnectionEnding.PEER)

    def statistics(self) -> ServerStatistics:
        """Return the counts since the start."""
        routes = sorted(self._shared.table.values(), key=lambda route: (route.key, route.version))
        now = self.ticks()
        logins = NO_LOGINS if self._logins is None else self._logins
        ages = [now - connection.session.opened_at for connection in self._open]
        return ServerStatistics(
            requests=tuple(map(RouteStatistics.of, routes)),
            requests_waiting=sum(len(connection.replies) for connection in self._open),
            requests_held=self._budget.requests,
            connections_open=Counter(connection.session.listener for connection in self._open),
            connections_unsent=sum(connection.unsent_bytes > 0 for connection in self._open),
            unsent_ns=self._shared.unsent_ns,
            connections_age_ns=sum(ages),
            connections_age_ns_max=max(ages, default=0),
            connections_accepted=self._accepted,
            connections_refused=self._refused,
            connections_closed=MappingProxyType(dict(self._closed)),
            accept_waits=self.accept_waits,
            authentications={name: msgspec.structs.replace(counts) for name, counts in logins.counts.items()},
            tls=Counter(
                (session.listener, *session.tls)
                for session in (connection.session for connection in self._open)
                if session.tls is not None
            ),
            held_bytes=self._budget.bytes + logins.bytes,
            held_bytes_max=self._budget.bytes_max,
        )

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._closed[connection.ending] += 1
        self._quotas.release(connection.session)
        if self._logins is not None:
            self._logins.forget(connection.session)
        self._on_closed(connection.session)
