"""The errors of outgoing connections."""

from __future__ import annotations


class Disconnected(Exception):
    """An error of a request whose connection has ended. The broker may have handled the request."""


class InvalidResponse(Disconnected):
    """An error of a connection that ended because the broker sent bytes that are no valid response."""


class UnsupportedVersion(Exception):
    """The error of an API that broker and client have no common version of."""


class Silent(Disconnected):
    """The error of a peer that is no broker, or a broker that hangs: it accepts connections, but never answers."""
