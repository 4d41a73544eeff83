"""The connections of this broker's fetchers to the inter-broker listeners of other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.broker.inter_broker_endpoints import InterBrokerEndpoints
from pykbroker.client.backoff import Backoff
from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.address import Address
from pykbroker.core.metadata.image import Endpoint
from pykbroker.world.net import Net
from wire.declare import Request

RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX = 50, 1000
RESPONSE_BYTES_MAX = 1 << 30
"""The size of the largest response. A fetch may exceed its limit by one batch, which a topic config limits."""


class LeaderConnection:
    """A connection to one broker, at its address in the current metadata."""

    def __init__(
        self, connection: ReconnectingConnection, endpoint: Callable[[], Endpoint | None], response_s_max: float
    ) -> None:
        self._connection, self._endpoint, self._response_s_max = connection, endpoint, response_s_max

    async def ask(self, request: Request[Any], version: int | None = None) -> Any:
        """Send a request on the open or a new connection, and return the response.

        The time limit includes the connecting.
        """
        endpoint = self._endpoint()
        if endpoint is not None:
            self._connection.address = Address(endpoint.host, endpoint.port)
        return await self._connection.ask(request, version, self._response_s_max)

    def close(self) -> None:
        self._connection.close()


class BrokerLeaderLinks:
    """The source of connections to brokers, whose addresses are in the metadata."""

    def __init__(
        self,
        node_id: int,
        net: Net,
        uniform: Callable[[float, float], float],
        endpoints: InterBrokerEndpoints,
        settings: LinkSettings,
        response_s_max: float,
    ) -> None:
        self._node_id, self._net, self._uniform, self._endpoints = node_id, net, uniform, endpoints
        self._settings, self._response_s_max = settings, response_s_max

    def link(self, broker_id: int) -> LeaderConnection | None:
        """Return a new connection to a broker, or None if the metadata has no address of it."""
        endpoint = self._endpoints.registered(broker_id)
        if endpoint is None:
            return None
        connection = self._settings.connection(
            self._net,
            Address(endpoint.host, endpoint.port),
            f"broker-{self._node_id}-fetcher",
            Backoff(self._uniform, RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX),
            self._uniform,
            RESPONSE_BYTES_MAX,
        )
        return LeaderConnection(connection, lambda: self._endpoints.registered(broker_id), self._response_s_max)
