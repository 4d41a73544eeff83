"""The endpoints of brokers that clients are told to connect to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.session import Session

LOOPBACK = ("127.", "::1", "::ffff:127.")

logger = logging.getLogger(__name__)


class BrokerEndpoint(NamedTuple):
    """The address at which one client reaches a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


class BrokerEndpoints:
    """The endpoints of the cluster's brokers, for all APIs that tell clients about brokers.

    `advertised` is the configured (host, port) of this broker. None: each client gets the address that it connected to.
    """

    def __init__(
        self, node_id: int, image: Callable[[], MetadataImage], advertised: tuple[str, int] | None = None
    ) -> None:
        self._node_id, self._image, self._advertised = node_id, image, advertised
        self._warned = False

    def own(self, session: Session) -> BrokerEndpoint:
        """Return the endpoint of this broker for this client."""
        broker = self._image().cluster.brokers.get(self._node_id)
        return BrokerEndpoint(self._node_id, *self.address(session), None if broker is None else broker.rack)

    def address(self, session: Session) -> tuple[str, int]:
        """Return this broker's (host, port) for this client. The first client from another machine is logged."""
        if self._advertised is not None:
            return self._advertised
        if not self._warned and not session.client_host.startswith(LOOPBACK):
            self._warned = True
            logger.warning(
                "%s comes from another machine and is told to use %s:%s. If it cannot reach that address"
                " (port forwarding, NAT, a container), start with --advertise HOST:PORT.",
                session,
                session.local_host,
                session.local_port,
            )
        return session.local_host, session.local_port
