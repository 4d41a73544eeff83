"""The reasons for which connections end."""

from __future__ import annotations

from enum import StrEnum


class ConnectionEnding(StrEnum):
    """A reason, as counted in the statistics."""

    PEER = "peer"
    """The peer closed the connection, or this broker stops."""
    BAD_REQUEST = "bad-request"
    """The bytes are no request, or the request is for an API or version that is not served."""
    REFUSED_REQUEST = "refused-request"
    """A handler closed the connection, because no response could report the error."""
    FAULT = "fault"
    """A bug of this broker, such as a response that cannot be encoded."""
    IDLE = "idle"
    """No byte came or went for `connections.max.idle.ms`."""
    SLOW_REQUEST = "slow-request"
    """A request began, and the rest of it did not come in time."""
    SLOW_READER = "slow-reader"
    """The peer did not take replies while their memory was needed."""
