"""The advertised endpoints of brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykbroker.core.address import Address
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
    """The advertised endpoints of the cluster's brokers, for all APIs that return brokers.

    A client gets the endpoint of the listener through which it is connected. `advertised` has the advertised addresses
    by listener. A client of any other listener gets the address that it is connected to.
    """

    def __init__(
        self, node_id: int, image: Callable[[], MetadataImage], advertised: Mapping[str, Address] | None = None
    ) -> None:
        self._node_id, self._image, self._advertised = node_id, image, advertised or {}
        self._warned = False

    def own(self, session: Session) -> BrokerEndpoint:
        """Return the endpoint of this broker for this client."""
        broker = self._image().cluster.brokers.get(self._node_id)
        return BrokerEndpoint(self._node_id, *self.address(session), None if broker is None else broker.rack)

    def address(self, session: Session) -> Address:
        """Return the advertised (host, port) of this broker for this client.

        Log a warning for the first client from another machine if the address may be unreachable from there.
        """
        if (advertised := self._advertised.get(session.listener)) is not None:
            return advertised
        if not self._warned and not session.client_host.startswith(LOOPBACK):
            self._warned = True
            logger.warning(
                "%s comes from another machine and gets the address %s:%s. If it cannot reach that address"
                " (port forwarding, NAT, a container), start with --advertise %s=HOST:PORT.",
                session,
                session.local_host,
                session.local_port,
                session.listener,
            )
        return Address(session.local_host, session.local_port)
