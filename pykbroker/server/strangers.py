"""The warnings about peers whose connections are closed, with the setting to change if they speak another protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.core.security.session import Session
from pykbroker.world.rate_limited_warning import RateLimitedWarnings
from wire.errors import DecodeError

logger = logging.getLogger(__name__)

TLS_HANDSHAKE, TLS_MAJOR_VERSION = 0x16, 3
HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")
TLS = (
    "this is a TLS handshake, and the listener has no TLS: set security.protocol=PLAINTEXT in the client, or"
    " SASL_PLAINTEXT if the listener has SASL"
)
HTTP = "this is an HTTP request, and the listener speaks Kafka's protocol: metrics are at the address of --console"
SASL = "the client asks for SASL, and the listener has none: set security.protocol={} in the client"


class NotKafka(DecodeError):
    """An error for bytes that begin a message of another protocol."""


def other_protocol(start: bytes) -> str:
    """Return the name of the protocol whose message begins with these 4 bytes, or an empty text for Kafka's."""
    if start[0] == TLS_HANDSHAKE and start[1] == TLS_MAJOR_VERSION:
        return TLS
    return HTTP if start in HTTP_METHODS else ""


class Strangers:
    """The rate-limited warnings about peers: one line a minute per host, listener and reason.

    `ticks` returns ns of a monotonic clock.
    """

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._warnings = RateLimitedWarnings(logger, ticks)

    def report(self, session: Session, reason: object, detail: str = "") -> None:
        """Log which protocol the peer speaks and which setting to change.

        `reason` is one of a few texts, and `detail` is any text.
        """
        kind = session.client_host, session.listener, str(reason)
        self._warnings.warn(kind, "%s is no client of the listener %s: %s%s", session, session.listener, reason, detail)

    def closing(self, session: Session, error: Exception) -> None:
        """Log why the connection of a client is closed. All errors of a class are one reason."""
        kind = session.client_host, session.listener, type(error).__name__
        self._warnings.warn(kind, "closing the connection of %s: %s", session, error)
