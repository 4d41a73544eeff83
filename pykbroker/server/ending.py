"""Why connections end."""

from __future__ import annotations

from enum import StrEnum


class ConnectionEnding(StrEnum):
    """As counted in the statistics."""

    PEER = "peer"
    """The peer went away, or this broker stops."""
    BAD_REQUEST = "bad-request"
    """What came is no request, or asks for what is not served."""
    REFUSED_REQUEST = "refused-request"
    """A handler had no answer but this."""
    FAULT = "fault"
    """A bug here, such as an answer that cannot be encoded."""
    IDLE = "idle"
    """Nothing moved for `connections.max.idle.ms`."""
    SLOW_REQUEST = "slow-request"
    """A request had begun and did not come."""
    SLOW_READER = "slow-reader"
    """Answers were not taken while the memory that they hold was needed."""
