"""The reasons why connections end."""

from __future__ import annotations

from enum import StrEnum


class ConnectionEnding(StrEnum):
    """The reason why a connection ended. The statistics count each reason."""

    PEER = "peer"
    """The client closed the connection, or this broker stops or closes the listener."""
    BAD_REQUEST = "bad-request"
    """The received bytes are no request, or the request is for an API or version that is not served."""
    REFUSED_REQUEST = "refused-request"
    """A handler closed the connection, because no response could report the error."""
    FAULT = "fault"
    """A bug of this broker, such as a response that cannot be encoded."""
    IDLE = "idle"
    """No byte was received or sent for `connections.max.idle.ms`."""
    SLOW_REQUEST = "slow-request"
    """The first bytes of a request were received, but the rest did not follow in time."""
    SLOW_READER = "slow-reader"
    """The client did not read its replies while the memory budget was exhausted."""
    FAILED_LOGIN = "failed-login"
    """The client failed to log in by SASL, or sent another request before it had logged in."""
    SLOW_LOGIN = "slow-login"
    """The client did not log in in time."""
    CROWDED_OUT = "crowded-out"
    """The client had not logged in for longer than others, and these together held more memory than they may, or others
    waited for their places."""
    EXPIRED_SESSION = "expired-session"
    """The client sent a request after the end of its session, and did not authenticate again."""
