"""The connections of this broker to other brokers, as its fetchers use them."""

from __future__ import annotations

from typing import Any, Protocol

from wire.declare import Request


class LeaderLink(Protocol):
    """A connection to one broker, which is opened again after it was lost."""

    async def ask(self, request: Request[Any], version: int | None = None) -> Any:
        """Send a request, and return the response.

        Raise OSError if no connection can be opened, and Disconnected if it ends before the response. Either is the
        case after `replica.socket.timeout.ms`.
        """

    def close(self) -> None:
        """Close the connection. A later request opens another one."""


class LeaderLinks(Protocol):
    """The source of connections to brokers."""

    def link(self, broker_id: int) -> LeaderLink | None:
        """Return a new connection to a broker's inter-broker listener, or None if its address is unknown.

        It is opened when the first request is sent. Its address follows the metadata.
        """
