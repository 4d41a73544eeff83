"""The address of this broker that clients receive in responses."""

from __future__ import annotations

import logging

from pykbroker.world.net import Peer

LOOPBACK = ("127.", "::1", "::ffff:127.")

logger = logging.getLogger(__name__)


class Advertised:
    """The configured (host, port), or none: each client then receives the address that it connected to."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        self._address = address
        self._warned = False

    def address(self, peer: Peer) -> tuple[str, int]:
        """Return (host, port) for this client. The first client from another machine is logged."""
        if self._address is not None:
            return self._address
        if not self._warned and not peer.host.startswith(LOOPBACK):
            self._warned = True
            logger.warning(
                "%s comes from another machine and is told to use %s:%s. If it cannot reach that address"
                " (port forwarding, NAT, a container), start with --advertise HOST:PORT.",
                peer,
                peer.local_host,
                peer.local_port,
            )
        return peer.local_host, peer.local_port
