"""Connections to the other brokers of the cluster, one for each, opened when a request needs it."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.client.backoff import Backoff
from pykbroker.client.errors import Disconnected, UnsupportedVersion
from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.pending_response import R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.address import Address
from pykbroker.core.backoff import Uniform
from pykbroker.core.errors import ApiError
from pykbroker.world.net import Net
from wire.declare import Request
from wire.error_codes import ErrorCode

REQUEST_S_MAX = 30.0
"""The default of request.timeout.ms, in seconds: the time in which another broker must respond."""


class Peers:
    """The connections of a broker to other brokers.

    `address_of` returns the address of an unfenced broker for other brokers, or None.
    """

    def __init__(
        self,
        net: Net,
        address_of: Callable[[int], Address | None],
        client_id: str,
        uniform: Uniform,
        request_s_max: float = REQUEST_S_MAX,
        settings: LinkSettings = LinkSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._net, self._address_of, self._client_id, self._uniform = net, address_of, client_id, uniform
        self._request_s_max, self._settings = request_s_max, settings
        self._links: dict[int, ReconnectingConnection] = {}

    async def ask(self, node_id: int, request: Request[R]) -> R:
        """Return the response of a broker to a request that is sent once.

        Raise ApiError NETWORK_EXCEPTION if there is no response; the broker may have handled the request. Raise
        ApiError UNSUPPORTED_VERSION if the broker does not serve the API.
        """
        address = self._address_of(node_id)
        if address is None:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {node_id} is not registered or is fenced")
        try:
            return await self._link(node_id, address).ask(request, s_max=self._request_s_max)
        except (OSError, Disconnected) as failure:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {node_id}: {failure}") from failure
        except UnsupportedVersion as unsupported:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"broker {node_id}: {unsupported}") from unsupported

    def _link(self, node_id: int, address: Address) -> ReconnectingConnection:
        """Return the connection to a broker. A connection to an earlier address is closed."""
        link = self._links.get(node_id)
        if link is None or link.address != address:
            if link is not None:
                link.close()
            link = self._links[node_id] = self._settings.connection(
                self._net, address, self._client_id, Backoff(self._uniform), self._uniform
            )
        return link
