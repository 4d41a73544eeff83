"""The acceptor of one listener, which creates a session for each new client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykbroker.core.security.session import Authorizer, Session
from pykbroker.server.connection import Connection
from pykbroker.server.connections import Connections
from pykbroker.world.net import Peer, Pump
from pykbroker.world.rate_limited_warning import RateLimitedWarning

if TYPE_CHECKING:
    from pykbroker.server.login.table import SaslListener

logger = logging.getLogger(__name__)


class Listener:
    """The acceptor of the listener `name`, whose clients `authorizer` decides about. It matches `world.net.Accept`.

    With `sasl`, clients must log in before their first request.
    """

    def __init__(
        self,
        name: str,
        connections: Connections,
        authorizer: Authorizer | None = None,
        sasl: SaslListener | None = None,
    ) -> None:
        self._name, self._connections, self._authorizer, self._sasl = name, connections, authorizer, sasl
        self._too_many = RateLimitedWarning(logger, connections.ticks)

    def has_room(self) -> bool:
        """Whether another client may be accepted now. Otherwise it waits in the backlog."""
        return self._connections.has_room(self._name)

    def paused(self) -> None:
        """Count and log that a client waits in the backlog, and make room for it."""
        self._connections.accept_waits += 1
        self._connections.make_room(self._name)
        self._too_many.warn(
            "%s: %d connections are open, and further connections wait (for max.connections,"
            " max.connection.creation.rate or the limit of open files)",
            self._name,
            len(self._connections),
        )

    def close(self) -> int:
        """Close the connections of the listener, which accepts no more of them, and return how many they were."""
        return self._connections.close_listener(self._name)

    def __call__(self, peer: Peer, pump: Pump) -> Connection | None:
        """Return a connection for `peer`, whose bytes `pump` moves, or None if its address has too many connections."""
        opened_at = self._connections.ticks()
        session = Session(
            client_host=peer.host,
            client_port=peer.port,
            local_host=peer.local_host,
            local_port=peer.local_port,
            listener=self._name,
            opened_at=opened_at,
            authorizer=self._authorizer,
        )
        return self._connections.open(session, pump, self._sasl)
