"""The errors of outgoing connections."""

from __future__ import annotations


class Disconnected(Exception):
    """An error of a request whose connection has ended. The broker may have handled the request."""


class InvalidResponse(Disconnected):
    """An error of a connection that ended because the broker sent bytes that are no valid response."""


class UnsupportedVersion(Exception):
    """An error for an API of which broker and client support no common version."""


class Silent(Disconnected):
    """An error for a peer that accepts connections but never answers: it is no broker, or a broker that hangs."""


def is_refusal(error: BaseException | None) -> bool:
    """Whether all attempts to connect were refused, as trio reports them: in a cause or a group of causes."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_refusal, error.exceptions))
    return isinstance(error, ConnectionRefusedError) or (error is not None and is_refusal(error.__cause__))
