"""A broker as its clients see it: its connection, and when a request may be sent."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import trio

from pykbroker.client.connection import RESPONSE_BYTES_MAX, BrokerConnection
from pykbroker.client.errors import Disconnected
from pykbroker.client.pending_response import PendingResponse, R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.client.security import PLAINTEXT, ClientSecurity
from wire.declare import Request


class NodeSettings(msgspec.Struct, frozen=True):
    """The settings of a client's connections, with Kafka's defaults. Each comment names the Kafka config."""

    client_id: str = ""
    in_flight_max: int = 5
    """max.in.flight.requests.per.connection"""
    request_timeout_ms: float = 30_000
    """request.timeout.ms"""
    reconnect_backoff_ms: float = 50
    """reconnect.backoff.ms"""
    reconnect_backoff_ms_max: float = 1000
    """reconnect.backoff.max.ms"""
    setup_timeout_ms: float = 10_000
    """socket.connection.setup.timeout.ms"""
    setup_timeout_ms_max: float = 30_000
    """socket.connection.setup.timeout.max.ms"""
    idle_ms_max: float = 540_000
    """connections.max.idle.ms"""
    response_bytes_max: int = RESPONSE_BYTES_MAX
    security: ClientSecurity = PLAINTEXT


class ClusterNode:
    """A broker with one connection. Times are those of trio's clock, in seconds."""

    __slots__ = (
        "_idle_s_max",
        "_in_flight_max",
        "connection_requested",
        "link",
        "node_id",
        "throttled_until",
        "used_at",
    )

    def __init__(self, node_id: int, link: ReconnectingConnection, settings: NodeSettings) -> None:
        self.node_id, self.link = node_id, link
        self._in_flight_max, self._idle_s_max = settings.in_flight_max, settings.idle_ms_max / 1000
        self.connection_requested = False
        """Whether a task was started that opens a connection."""
        self.throttled_until = 0.0
        """The time before which no request is sent, because a response had a throttle time (KIP-219)."""
        self.used_at = 0.0
        """The time of the newest request."""

    @property
    def is_open(self) -> bool:
        """Whether a connection with negotiated API versions is open."""
        return self.link.current is not None

    @property
    def in_flight_count(self) -> int:
        """Return the number of requests without a response."""
        connection = self.link.current
        return 0 if connection is None else connection.pending_count

    def can_send(self, now: float) -> bool:
        """Whether a request may be sent at once, as Kafka's clients decide it.

        The connection is open and not throttled, all earlier requests are sent, and fewer than
        `max.in.flight.requests.per.connection` of them wait for a response.
        """
        connection = self.link.current
        return (
            connection is not None
            and now >= self.throttled_until
            and not connection.has_unsent
            and connection.pending_count < self._in_flight_max
        )

    @property
    def is_connecting(self) -> bool:
        """Whether a task opens a connection, or will do so."""
        return not self.is_open and (self.connection_requested or self.link.is_connecting)

    def can_connect(self, now: float) -> bool:
        """Whether no connection is open or being opened, and the reconnect backoff has elapsed."""
        return not self.is_open and not self.is_connecting and now >= self.link.next_attempt_at

    def delay_s(self, now: float) -> float:
        """Return the seconds until a request may be sent or a connection be opened.

        The result is inf if that depends on the network: on a connection attempt or a response. `Nodes` then calls the
        callbacks of `call_when_ready` or `call_when_lost`, or wakes a request in flight.
        """
        if self.is_open:
            return max(0.0, self.throttled_until - now) or (0.0 if self.can_send(now) else inf)
        return inf if self.is_connecting else max(0.0, self.link.next_attempt_at - now)

    def ask_nowait(self, request: Request[R], version: int | None, deadline: float) -> PendingResponse[R]:
        """Send a request on the open connection. Raise Disconnected without one, or if it has ended."""
        pending = self.connection().ask_nowait(request, version)
        pending.expires_at = deadline
        self.used_at = trio.current_time()
        return pending

    def send_nowait(self, request: Request[Any], version: int | None) -> None:
        """Send a request that has no response. Raise Disconnected as `ask_nowait` does."""
        self.connection().send_nowait(request, version)
        self.used_at = trio.current_time()

    async def send(self, request: Request[Any], version: int | None) -> None:
        """Send a request that has no response, and wait until the kernel takes it."""
        connection = self.connection()
        self.used_at = trio.current_time()
        await connection.send(request, version)

    def expire(self, now: float) -> float:
        """Close the connection if a response that was due by `now` is missing, or if the connection is idle.

        Return the time at which to check again.
        """
        connection = self.link.current
        if connection is None:
            return inf
        connection.expire(now)
        idle_at = self.used_at + self._idle_s_max
        if not connection.pending_count and idle_at <= now:
            self.link.close(Disconnected(f"the connection to node {self.node_id} was idle"))
        if not connection.is_open:
            return inf
        return min(connection.expires_at, idle_at if idle_at > now else inf)

    def connection(self) -> BrokerConnection:
        """Return the open connection. Raise Disconnected without one."""
        connection = self.link.current
        if connection is None:
            raise Disconnected(f"no connection to node {self.node_id} ({self.link.address}) is open")
        return connection
