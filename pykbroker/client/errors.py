"""The errors of outgoing connections."""

from __future__ import annotations

from wire.error_codes import ErrorCode


class Disconnected(Exception):
    """An error of a request whose connection has ended. The broker may have handled the request."""


class InvalidResponse(Disconnected):
    """An error of a connection that ended because the broker sent bytes that are no valid response."""


class UnsupportedVersion(Exception):
    """An error for an API of which broker and client support no common version."""


class Silent(Disconnected):
    """An error of a request without a response in time: its peer hangs, is cut off, or is no broker."""


class HandshakeEnded(Disconnected):
    """An error of a connection that the peer has ended in the handshake of TLS, as a listener without TLS does."""


class AuthenticationError(Disconnected):
    """An error of TLS or of a log-in: broker or client do not accept the other.

    Another attempt with the same settings fails, too. `code` is the broker's error code, or None without one.
    """

    def __init__(self, text: str, code: ErrorCode | None = None) -> None:
        super().__init__(text)
        self.code = code


class CertificateRefused(AuthenticationError):
    """An error of a broker that refuses the certificate of this client, or misses it."""


def is_refusal(error: BaseException | None) -> bool:
    """Whether all addresses of a host refused to connect, as `Net.connect` reports it: by an error or by its causes."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_refusal, error.exceptions))
    return isinstance(error, ConnectionRefusedError) or (error is not None and is_refusal(error.__cause__))
