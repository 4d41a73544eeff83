"""A connection of a broker to the active controller. A request is sent until the active controller answers it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.errors import Disconnected, UnsupportedVersion
from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.pending_response import R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.address import Address
from pykbroker.core.backoff import Uniform
from pykbroker.core.errors import ApiError
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.world.net import Net
from wire.declare import Request
from wire.error_codes import ErrorCode

RETRY_S = 0.1
"""The pause before a request is sent again. Kafka's brokers look for the controller at this interval."""
RECONNECT_MS, RECONNECT_MS_MAX = 50, 1000
RESPONSE_BYTES_MAX = 100 << 20

logger = logging.getLogger(__name__)


class ControllerChannel:
    """A connection for one kind of requests, so that a slow request delays none of another kind.

    A controller that does not respond within `response_s_max` is looked for again. The connection is closed then, and
    at a new epoch of the quorum: a controller whose machine lost power, and that has started again, never responds to a
    request of an earlier epoch.
    """

    def __init__(
        self,
        net: Net,
        leader: QuorumLeader,
        client_id: str,
        uniform: Uniform,
        settings: LinkSettings,
        response_s_max: float,
    ) -> None:
        self._net, self._leader, self._client_id, self._uniform = net, leader, client_id, uniform
        self._settings, self._response_s_max = settings, response_s_max
        self._link: ReconnectingConnection | None = None
        leader.call_at_new_epoch(self._leave_epoch)

    async def ask(self, request: Request[R], version: int | None = None, s_max: float = inf) -> R:
        """Return the response of the active controller.

        A request whose connection is lost, or that gets no response in time, is sent again. Raise ApiError
        REQUEST_TIMED_OUT if all attempts together take `s_max` seconds, and UNSUPPORTED_VERSION if the controller does
        not serve the API. A request that times out has closed its connection, too.
        """
        ends_at = trio.current_time() + s_max
        while trio.current_time() < ends_at:
            with trio.move_on_at(ends_at):
                await self._leader.wait()
            left_s = ends_at - trio.current_time()
            if (address := self._leader.address) is None or left_s <= 0:
                break
            epoch = self._leader.epoch
            try:
                limit_s = min(self._response_s_max, left_s)
                response = await self._connection(address).ask(request, version, limit_s)
            except (OSError, Disconnected) as failure:
                logger.debug("%s: %s failed: %s", address, type(request).__name__, failure)
                # A newer epoch has closed the connection by itself, and the end of the caller's time says nothing of
                # the controller.
                if self._leader.epoch == epoch and trio.current_time() < ends_at:
                    self._leader.lost(address)
            except UnsupportedVersion as unsupported:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(unsupported)) from unsupported
            else:
                if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                    return response
                self._leader.lost(address)
            await trio.sleep_until(min(trio.current_time() + RETRY_S, ends_at))
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not respond in time")

    def close(self) -> None:
        """Close the connection. A later request opens another one."""
        if self._link is not None:
            self._link.close()

    def _leave_epoch(self) -> None:
        if self._link is not None:
            self._link.close(Disconnected("another epoch of the quorum has begun"))

    def _connection(self, address: Address) -> ReconnectingConnection:
        """Return the connection to this address. A connection to an earlier controller is closed."""
        link = self._link
        if link is None or link.address != address:
            if link is not None:
                link.close()
            backoff = Backoff(self._uniform, RECONNECT_MS, RECONNECT_MS_MAX)
            link = self._link = self._settings.connection(
                self._net, address, self._client_id, backoff, self._uniform, RESPONSE_BYTES_MAX, self._response_s_max
            )
        return link


Channels = Callable[[str], ControllerChannel]
"""A function that returns a new channel for this kind of requests."""
