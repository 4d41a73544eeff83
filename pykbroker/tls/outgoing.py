"""The TLS of an outgoing connection."""

from __future__ import annotations

import logging
import ssl
from typing import Any

logger = logging.getLogger(__name__)


class OutgoingTls:
    """The TLS of connections to one host. It matches `world.net.Tls`, whose `connect` raises what fails."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._context, self._host = context, host

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """Return the state of TLS for a new connection."""
        return self._context.wrap_bio(incoming, outgoing, server_hostname=self._host)

    def secured(self, connection: Any, certificate: bytes | None, cipher: tuple[str, str, int]) -> None:
        """Do nothing, since the context has checked the certificate."""

    def failed(self, connection: Any, error: ssl.SSLError) -> None:
        """Log what a peer has broken, for the error of an open connection that nobody awaits."""
        logger.debug("TLS with %s failed: %s", self._host, error)
