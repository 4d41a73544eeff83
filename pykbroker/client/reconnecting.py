"""A connection to a broker's address that is opened again after it was lost."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import RESPONSE_BYTES_MAX, BrokerConnection, open_connection
from pykbroker.client.errors import AuthenticationError, Disconnected, HandshakeEnded, Silent
from pykbroker.client.pending_response import R, do_nothing
from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.core.address import Address
from pykbroker.world.net import Net
from wire.declare import Request


def always() -> bool:
    """Return True."""
    return True


class ReconnectingConnection:
    """A connection that is opened when a request needs one.

    After a connection was lost or could not be opened, the next attempt waits for `reconnect.backoff.ms`, doubled at
    each failure up to `reconnect.backoff.max.ms`. Pending requests of a lost connection fail, since only the caller
    knows whether they may be sent again.

    `setup_timeout` gives the time limits for opening a connection, which also double at each failure. `answer_s_max` is
    the time limit for the API versions and the log-in. Both are unlimited by default. `receive_buffer_bytes` is as in
    `Net.connect`.
    """

    def __init__(
        self,
        net: Net,
        host: str,
        port: int,
        client_id: str,
        backoff: Backoff,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        setup_timeout: Backoff | None = None,
        answer_s_max: float = inf,
        receive_buffer_bytes: int = -1,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self.address = Address(host, port)
        """The address of the next connection attempt."""
        self._net, self._client_id = net, client_id
        self._backoff, self._response_bytes_max = backoff, response_bytes_max
        self._setup_timeout, self._answer_s_max = setup_timeout, answer_s_max
        self._receive_buffer_bytes, self._security = receive_buffer_bytes, security
        self._connection: BrokerConnection | None = None
        self._connecting = trio.Lock()
        self.next_attempt_at = 0.0
        """The time of trio's clock before which no connection attempt is made."""
        self.last_attempt_at = -inf
        """The time of trio's clock at which the newest connection attempt began."""
        self.on_opened: Callable[[], None] = do_nothing
        """A function that is called once a connection has negotiated API versions."""
        self.on_refused = security.on_refused
        """A function that is called when an attempt fails because broker or client refuse the other."""
        self.is_trusted: Callable[[], bool] = always
        """Whether the settings have worked. If not, a broker that ends a handshake of TLS counts as one without TLS."""
        self.on_lost: Callable[[], None] = do_nothing
        """A function that is called when a connection ends or an attempt fails."""

    @property
    def is_connecting(self) -> bool:
        """Whether a task opens a connection, or waits for the backoff to do so."""
        return self._connecting.locked()

    @property
    def current(self) -> BrokerConnection | None:
        """Return the open connection, or None without one."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    async def connection(self) -> BrokerConnection:
        """Return the open connection, or try once to open one after the backoff.

        Raise OSError if no connection can be opened, and Disconnected if it ends before the broker has sent its API
        versions.
        """
        if self._connection is not None:
            return self._connection
        async with self._connecting:
            if self._connection is None:
                await trio.sleep_until(self.next_attempt_at)
                self._connection = await self._connect()
                self.on_opened()
            return self._connection

    async def ask(self, request: Request[R], version: int | None = None, s_max: float = inf) -> R:
        """Send a request on the open or a new connection, and return the response.

        Raise OSError if no connection can be opened; nothing was sent then. Raise Disconnected if the connection ends
        before the response. After `s_max` seconds, either is the case.
        """
        if self._connection is not None:
            return await self._connection.ask(request, version, s_max)
        connection, ends_at = None, trio.current_time() + s_max
        with trio.move_on_at(ends_at):
            connection = await self.connection()
        if connection is None:
            raise TimeoutError(f"{self.address} accepted no connection within {s_max:g} s")
        return await connection.ask(request, version, ends_at - trio.current_time())

    def close(self, error: Disconnected | None = None) -> None:
        """Close the connection, if one is open. A later request opens another connection after the backoff."""
        if self._connection is not None:
            self._connection.close(error)

    async def _connect(self) -> BrokerConnection:
        self.last_attempt_at = trio.current_time()
        try:
            connection = await self._open()
            try:
                await self._negotiate(connection)
                if not connection.is_open:
                    raise Disconnected(f"{self.address} closed the connection")
                connection.call_when_closed(self._lost)
            except BaseException:
                connection.close()
                raise
        except BaseException as failure:  # a cancelled attempt also counts as a failure
            error = failure
            if isinstance(failure, HandshakeEnded) and not self.is_trusted():
                error = AuthenticationError(str(failure))
            if isinstance(error, AuthenticationError):
                self.on_refused(error)
            self._lost()
            if error is failure:
                raise
            raise error from failure
        self._backoff.succeeded()
        return connection

    async def _open(self) -> BrokerConnection:
        """Open a connection within `socket.connection.setup.timeout.ms`, which doubles at each failure."""
        host, port = self.address
        limit_s = self._setup_timeout.failed() if self._setup_timeout else inf
        connection = None
        with trio.move_on_after(limit_s):
            try:
                connection = await open_connection(
                    self._net,
                    host,
                    port,
                    self._client_id,
                    self._response_bytes_max,
                    self._receive_buffer_bytes,
                    self._security,
                )
            except UnicodeError:  # raised by the encoding of a host name, such as a..b
                raise OSError(f"{host} is not a valid host name") from None
        if connection is None:
            raise TimeoutError(f"{self.address} accepted no connection within {limit_s:.1f} s")
        if self._setup_timeout:
            self._setup_timeout.succeeded()
        return connection

    async def _negotiate(self, connection: BrokerConnection) -> None:
        try:
            await connection.negotiate(self._answer_s_max)
        except Silent as silent:
            missing = "completed no log-in" if connection.versions else "sent no API versions"
            raise Silent(f"{self.address} {missing} within {self._answer_s_max:g} s") from silent

    def _lost(self) -> None:
        self._connection = None
        self.next_attempt_at = trio.current_time() + self._backoff.failed()
        self.on_lost()
