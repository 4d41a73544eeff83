"""The security of a client: connections in plain text or by TLS, with or without a log-in.

One value goes from the settings to each connection. The default connects in plain text, without a log-in.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from pykbroker.client.errors import AuthenticationError, Disconnected
from pykbroker.client.tls_hints import TlsHints

if TYPE_CHECKING:
    from pykbroker.client.client_tls import ClientTls
    from pykbroker.core.security.sasl.client import ClientMechanism


def no_bits(bits: int) -> int:
    """Raise AssertionError: a client without a log-in needs no random numbers."""
    raise AssertionError(f"a client that logs in needs {bits} random bits")


def forget(_error: AuthenticationError) -> None:
    """Do nothing."""


class ClientSecurity(msgspec.Struct, frozen=True):
    """The security of a client's connections.

    `tls` returns the context of a new connection, which changes when stores are read again. `random_bits` returns a
    number of so many bits that no one can predict, and is needed for a log-in. `on_refused` is called when broker and
    client refuse each other at an attempt to connect, and `reason` returns why, and what to do.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    sasl: ClientMechanism | None = None
    random_bits: Callable[[int], int] = no_bits
    on_refused: Callable[[AuthenticationError], None] = forget
    reason: Callable[[AuthenticationError], str] = str
    hints: TlsHints = TlsHints()

    def tls_of(self, host: str, port: int) -> ClientTls | None:
        """Return the TLS of a connection to this address, or None without TLS."""
        if self.tls is None:
            return None
        from pykbroker.client.client_tls import ClientTls  # a broker whose connections have no TLS starts without it

        return ClientTls(self.tls(), host, port, self.hints)

    def failure_text(self, error: Exception, setting: str = "security_protocol") -> str:
        """Return the failure of a first connection in words, and what else the end of a connection may mean.

        A listener with TLS or SASL names no cause to a client without: it closes the connection, as one of Kafka does.
        `setting` names the setting that would change that.
        """
        missing = [name for name, own in (("TLS", self.tls), ("SASL", self.sasl)) if own is None]
        if type(error) is not Disconnected or not missing:
            return str(error)
        return f"{error}: a listener with {' or '.join(missing)} does so, and needs another {setting}"


PLAINTEXT = ClientSecurity()
