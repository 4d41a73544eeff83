"""The TLS of a client's connection, and what a failure of it means, as a sentence that says what to do."""

from __future__ import annotations

import ssl
from typing import Any

from pykbroker.client.errors import AuthenticationError, CertificateRefused, HandshakeEnded
from pykbroker.client.tls_hints import TlsHints
from pykbroker.core.address import Address

HOST_MISMATCH = (62, 64)
"""OpenSSL's errors of a certificate that is for another host, or for another address."""
NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons for bytes that are not TLS."""
NOT_TLS = "the broker does not answer by TLS"


class ClientTls:
    """The TLS of a connection, which fails with an AuthenticationError. It matches `world.net.Tls`."""

    def __init__(self, context: ssl.SSLContext, host: str, port: int, hints: TlsHints) -> None:
        self._context, self._address, self._hints = context, Address(host, port), hints

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, start: bytes) -> ssl.SSLObject:
        """Return the state of TLS for a new connection."""
        return self._context.wrap_bio(incoming, outgoing, server_hostname=self._address.host)

    def secured(self, connection: Any, certificate: bytes | None, cipher: tuple[str, str, int]) -> None:
        """Do nothing, since the context has checked the certificate."""

    def failed(self, connection: Any, error: ssl.SSLError) -> None:
        """End the connection. With TLS 1.3 a broker may refuse the client's certificate only afterwards."""
        connection.fail(self.refusal(error))

    def ended(self) -> HandshakeEnded:
        """Return what a connection that ends in the handshake may mean, and what to do."""
        return HandshakeEnded(
            f"{self._address}: the peer ended the connection in the handshake of TLS: {NOT_TLS}: {self._hints.protocol}"
        )

    def refusal(self, error: ssl.SSLError) -> AuthenticationError:
        """Return why broker and client do not accept each other, and what to do."""
        kind = CertificateRefused if refuses_certificate(error) else AuthenticationError
        return kind(f"{self._address}: {problem(error, self._address.host, self._hints)}")


def reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's name of an error, which errors of Python's own lack."""
    return getattr(error, "reason", None) or str(error)


def refuses_certificate(error: ssl.SSLError) -> bool:
    """Whether the broker refuses the certificate of this client, or misses it."""
    reason = reason_of(error)
    return "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE"))


def problem(error: ssl.SSLError, host: str, hints: TlsHints) -> str:
    """Return what has failed in TLS with a broker, and what to do."""
    reason = reason_of(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in HOST_MISMATCH:
            return f"the broker's certificate is not for {host}: {hints.host}"
        return (
            f"the broker's certificate is refused ({error.verify_message}): trust the authority that has signed it,"
            f" by {hints.truststore}"
        )
    if reason in NO_TLS:
        return f"{NOT_TLS}: {hints.protocol}"
    if refuses_certificate(error):
        return (
            f"the broker refuses the certificate of this client, or misses it ({reason}): set {hints.keystore} to one"
            " that the broker trusts"
        )
    return f"TLS has failed ({reason})"
