"""The connections to all brokers of a cluster, for requests that only the broker itself can answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from pykbroker.client.connection import BrokerConnection
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataRequest


class Connected(Protocol):
    """A connection to one broker of a cluster, with a way to connect to the others, such as an admin client."""

    connection: BrokerConnection
    connect: Callable[[str, int], Awaitable[BrokerConnection]]


class Brokers:
    """The connections to the brokers of a cluster. If the cluster has one broker, its connection is that of `admin`."""

    def __init__(self, admin: Connected) -> None:
        self._connection, self._connect = admin.connection, admin.connect
        self._others: dict[tuple[str, int], BrokerConnection] = {}

    async def connections(self) -> dict[int, BrokerConnection]:
        """Return a connection to each broker, by node id.

        Raise OSError or Disconnected if a broker does not answer.
        """
        answer = await self._connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return {
            broker.node_id: await self.connection(broker.host, broker.port, alone=len(answer.brokers) == 1)
            for broker in sorted(answer.brokers, key=lambda broker: broker.node_id)
        }

    async def of(self, node_id: int) -> BrokerConnection:
        """Return a connection to one broker. Raise ApiError BROKER_NOT_AVAILABLE if the cluster has no such broker."""
        answer = await self._connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if node_id not in addresses:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"there is no broker {node_id}: the brokers that run are {', '.join(map(str, sorted(addresses)))}",
            )
        return await self.connection(*addresses[node_id], alone=len(addresses) == 1)

    async def connection(self, host: str, port: int, *, alone: bool) -> BrokerConnection:
        """Return a connection to this broker. `alone` is true if the cluster has no other broker."""
        if alone:
            return self._connection
        if (host, port) not in self._others:
            self._others[host, port] = await self._connect(host, port)
        return self._others[host, port]

    def close(self) -> None:
        """Close the connections that were opened to other brokers."""
        for other in self._others.values():
            other.close()
