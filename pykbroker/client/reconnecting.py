"""A connection to a broker's address that is opened again after it was lost."""

from __future__ import annotations

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import RESPONSE_BYTES_MAX, BrokerConnection, connect
from pykbroker.client.errors import Disconnected
from pykbroker.client.pending_response import R
from pykbroker.world.net import Net
from wire.declare import Request


class ReconnectingConnection:
    """A connection that is opened when a request needs one.

    After a connection was lost or could not be opened, the next attempt waits for `reconnect.backoff.ms`, doubled at
    each failure up to `reconnect.backoff.max.ms`. Pending requests of a lost connection fail, since only the caller
    knows whether they may be sent again.
    """

    def __init__(
        self,
        net: Net,
        host: str,
        port: int,
        client_id: str,
        backoff: Backoff,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._net, self._host, self._port, self._client_id = net, host, port, client_id
        self._backoff, self._response_bytes_max = backoff, response_bytes_max
        self._connection: BrokerConnection | None = None
        self._connecting = trio.Lock()
        self._next_attempt_at = 0.0
        """The time of trio's clock before which no connection attempt is made."""

    async def connection(self) -> BrokerConnection:
        """Return the open connection, or try once to open one after the backoff.

        Raise OSError if no connection can be opened, and Disconnected if it ends before the broker has sent its API
        versions.
        """
        if self._connection is not None:
            return self._connection
        async with self._connecting:
            if self._connection is None:
                await trio.sleep_until(self._next_attempt_at)
                self._connection = await self._connect()
            return self._connection

    async def ask(self, request: Request[R], version: int | None = None) -> R:
        """Send a request on the open or a new connection, and return the response.

        Raise OSError if no connection can be opened; nothing was sent then. Raise Disconnected if the connection ends
        before the response.
        """
        connection = await self.connection()
        return await connection.ask(request, version)

    def close(self) -> None:
        """Close the connection, if one is open. A later request opens another connection after the backoff."""
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> BrokerConnection:
        try:
            connection = await connect(self._net, self._host, self._port, self._client_id, self._response_bytes_max)
            connection.call_when_closed(self._lost)
            if not connection.is_open:
                raise Disconnected(f"{self._host}:{self._port} closed the connection")
        except BaseException:  # a cancelled attempt also counts as a failure
            self._lost()
            raise
        self._backoff.succeeded()
        return connection

    def _lost(self) -> None:
        self._connection = None
        self._next_attempt_at = trio.current_time() + self._backoff.failed()
