"""The connections whose clients have not logged in: their time, their memory, and their counts.

1. A client that has not logged in after `LOGIN_S_MAX` loses its connection, and after `CROWDED_LOGIN_S_MAX` if another
   client waits for its place.
2. All of them together hold at most a share of the memory budget. If they hold more, those that hold memory the
   longest lose their connections: a client that means to log in needs the memory for a moment.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import Protocol

import msgspec

from pykbroker.core.security.session import ConnectionKey, Session
from pykbroker.server.authentications import Authentications
from pykbroker.server.budget import Budget, Holder
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.limits import UNLIMITED
from pykbroker.server.login.late_ends import LateEnds
from pykbroker.server.login.routes import LoginAuthenticate, TokenRoute, login_routes
from pykbroker.server.login.table import SaslClient, SaslListener, SaslTable
from pykbroker.server.shared import Shared
from pykbroker.server.table import ApiTable

LOGIN_S_MAX = 10
"""The seconds from the opening of a connection to the end of the client's log-in."""
CROWDED_LOGIN_S_MAX = 3
"""The same while other clients wait in the backlog, since strangers could keep all places without a password."""
ENDS_MAX = 100
"""The number of connections that make room at a time. To end one takes some 30 us."""
LOGIN_SHARE = 8
"""The divisor of the memory budget for requests and responses that gives that of clients that have not logged in."""
SECOND_NS = 1_000_000_000


class LoginClient(SaslClient, Holder, Protocol):
    """A connection whose client has not logged in."""


class LoginBudget(Budget):
    """The memory budget of clients that have not logged in."""

    _makes_room = False

    def charge(self, holder: Holder, size: int) -> None:
        """Set the number of bytes that `holder` is charged, and end the oldest holders while the budget is exceeded."""
        super().charge(holder, size)
        if self.bytes > self.bytes_max and not self._makes_room:
            self._makes_room = True  # an end charges, too: a chain of ends in each other would be as deep as it is long
            try:
                self._make_room()
            finally:
                self._makes_room = False

    def _make_room(self) -> None:
        for oldest in list(self.holders):
            if self.bytes <= self.bytes_max:
                return
            if not oldest.ended:  # an ended one stays charged for its failed log-in until the delay is over
                oldest.end(ConnectionEnding.CROWDED_OUT)


class Logins:
    """The connections of some listeners that have a `SaslTable`. `shared` is for clients that have logged in."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._before = msgspec.structs.replace(
            shared, budget=LoginBudget(shared.budget.bytes_max // LOGIN_SHARE, UNLIMITED), serves_last=True
        )
        self._tables: dict[ConnectionKey, SaslTable] = {}
        self._waiting: dict[ConnectionKey, LoginClient] = {}  # in the order of their opening
        self._late_ends: dict[float, LateEnds] = {}
        self.counts: dict[str, Authentications] = {}
        """The counts of log-ins by listener."""

    def __len__(self) -> int:
        """Return the number of clients that have not logged in."""
        return len(self._waiting)

    @cached_property
    def routes(self) -> ApiTable:
        """Return the table of the three APIs of a log-in."""
        return login_routes(self._shared.table, self._table_of)

    @cached_property
    def token_route(self) -> TokenRoute:
        """Return the route of a token without a request header."""
        return TokenRoute(LoginAuthenticate(self._table_of))

    @property
    def bytes(self) -> int:
        """Return the bytes that clients before their log-in hold."""
        return self._before.budget.bytes

    def begin(self, client: LoginClient, listener: SaslListener) -> None:
        """Let the client of a new connection log in before its first request."""
        self.counts.setdefault(client.session.listener, Authentications())
        key = client.session.connection
        self._waiting[key] = client
        table = self._tables[key] = SaslTable(client, self, listener, self._shared)
        client.change_table(table, self._before)

    def end_overdue(self, now: int) -> bool:
        """End the oldest connection if its client has not logged in in time, and return whether it was so."""
        client = next(iter(self._waiting.values()), None)
        if client is None or now - client.session.opened_at < LOGIN_S_MAX * SECOND_NS:
            return False
        del self._waiting[client.session.connection]
        client.end(ConnectionEnding.SLOW_LOGIN)
        return True

    def end_slow(self, now: int, listener: str | None = None) -> None:
        """End the oldest connections that have not logged in, because other clients wait for their places.

        They are those of a listener, or of all.
        """
        clients = (each for each in self._waiting.values() if listener in (None, each.session.listener))
        for client in list(islice(clients, ENDS_MAX)):
            if now - client.session.opened_at < CROWDED_LOGIN_S_MAX * SECOND_NS:
                return
            client.end(ConnectionEnding.CROWDED_OUT)

    def logged_in(self, client: SaslClient, *, again_ns: int | None, can_again: bool, keeps_table: bool) -> None:
        """Note that a client has logged in. It keeps its table if the session has a lifetime."""
        counts = self.counts[client.session.listener]
        if again_ns is None:
            counts.successes += 1
            counts.successes_without_again += not can_again
        else:
            counts.successes_again += 1
            counts.again_ns += again_ns
            counts.again_ns_longest = max(counts.again_ns_longest, again_ns)
        key = client.session.connection
        self._waiting.pop(key, None)
        if not keeps_table:
            del self._tables[key]

    async def delay(self, seconds: float) -> None:
        """Wait for the delay after a failed log-in, and for those that have failed before."""
        if seconds not in self._late_ends:
            self._late_ends[seconds] = LateEnds(seconds, self._shared.tasks)
        await self._late_ends[seconds].wait()

    def failed(self, client: SaslClient, *, is_again: bool) -> None:
        """Note that a client has failed to log in."""
        counts = self.counts[client.session.listener]
        counts.failures += not is_again
        counts.failures_again += is_again

    def expired(self, client: SaslClient) -> None:
        """Note that the connection of a client ends with its session."""
        self.counts[client.session.listener].expired += 1

    def forget(self, session: Session) -> None:
        """Note that a connection has closed."""
        self._waiting.pop(session.connection, None)
        self._tables.pop(session.connection, None)

    def _table_of(self, session: Session) -> SaslTable:
        return self._tables[session.connection]
