"""The brokers of a cluster as a client's connections: one for each node id.

1. A connection is opened when it is needed, and again after it was lost, with Kafka's reconnect backoff.
2. A request that has no response by its deadline closes its connection, so that all requests of the connection fail, as
   in Kafka's clients. No request is sent again.
3. A group coordinator has a connection of its own (`coordinator_connection_id`), so that heartbeats do not wait behind
   a Fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.cluster import ClusterBroker
from pykbroker.client.connection import BrokerConnection, late_at
from pykbroker.client.errors import AuthenticationError, Disconnected
from pykbroker.client.node import ClusterNode, NodeSettings
from pykbroker.client.pending_response import PendingResponse, R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.address import Address
from pykbroker.world.net import Net
from wire.declare import Request
from wire.sentinels import NO_FEATURES_EPOCH

NODE_ID_MAX = 2**31 - 1
logger = logging.getLogger(__name__)


class Nodes:
    """The connections of one client. `run` must be running while connections are used.

    `uniform` returns a random number between its two arguments, as `World.rng.uniform` does.
    """

    def __init__(self, net: Net, uniform: Callable[[float, float], float], settings: NodeSettings) -> None:
        self._net, self._uniform, self.settings = net, uniform, settings
        self._nodes: dict[int, ClusterNode] = {}
        self._candidates: list[ClusterNode] = []
        """The brokers of the current metadata, or the bootstrap addresses."""
        self._nursery: trio.Nursery | None = None
        self._alarm_at, self._earlier = inf, trio.Event()
        self.features: dict[str, int] = {}
        """The newest finalized features of the cluster with their levels, such as `transaction.version`."""
        self._features_epoch = NO_FEATURES_EPOCH
        self._has_connected = False
        self._refusal: AuthenticationError | None = None
        self._on_ready: list[Callable[[int], None]] = []
        self._on_lost: list[Callable[[int], None]] = []
        self._on_refused: list[Callable[[AuthenticationError], None]] = []

    # ---- brokers

    def set_brokers(self, brokers: Mapping[int, ClusterBroker]) -> None:
        """Use these brokers for requests to the least loaded node. Open connections to other brokers stay open."""
        self._candidates = [self.learn(broker) for broker in brokers.values()]

    def learn(self, broker: ClusterBroker) -> ClusterNode:
        """Record a broker's address, which its next connection attempt uses, and return its node."""
        node = self._nodes.get(broker.node_id)
        if node is None:
            node = self._nodes[broker.node_id] = self._new_node(broker)
        node.link.address = Address(broker.host, broker.port)
        return node

    def node(self, node_id: int) -> ClusterNode:
        return self._nodes[node_id]

    def call_when_ready(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with a node id once its connection is open, and whenever all its requests are sent."""
        self._on_ready.append(callback)

    def call_when_lost(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with a node id whenever its connection has ended or could not be opened."""
        self._on_lost.append(callback)

    def call_when_refused(self, callback: Callable[[AuthenticationError], None]) -> None:
        """Call `callback` whenever a connection attempt fails because broker or client refuse the other."""
        self._on_refused.append(callback)

    def check_refusal(self) -> None:
        """Raise AuthenticationError if the last connection attempt has failed because of it.

        A caller that finds no node would otherwise wait without a reason.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    # ---- choice of a node

    def least_loaded(self) -> int | None:
        """Return the node id of the least loaded broker, or None if every broker waits for the reconnect backoff.

        Open connections are preferred, then connections that are being opened, then the broker whose last connection
        attempt is the oldest.
        """
        now, count = trio.current_time(), len(self._candidates)
        # `uniform` may return its upper limit.
        first = int(self._uniform(0, count)) % count if count else 0
        nodes = self._candidates[first:] + self._candidates[:first]
        if ready := [node for node in nodes if node.can_send(now)]:
            return min(ready, key=lambda node: node.in_flight_count).node_id
        if connecting := [node for node in nodes if node.is_connecting]:
            return connecting[-1].node_id
        if closed := [node for node in nodes if node.can_connect(now)]:
            return min(closed, key=lambda node: node.link.last_attempt_at).node_id
        return None

    @property
    def any_open(self) -> bool:
        """Whether the connection to a broker of the current metadata is open."""
        return any(node.is_open for node in self._candidates)

    def in_flight_counts(self) -> dict[int, int]:
        """Return the number of requests without a response on each open connection, by node id.

        This may be called in any thread.
        """
        return {node.node_id: node.in_flight_count for node in list(self._nodes.values()) if node.is_open}

    def ready_or_connect(self, node_id: int) -> bool:
        """Whether a request may be sent to a node at once. If no connection is open, start to open one.

        `call_when_ready` reports that the connection is open, and `call_when_lost` that the attempt failed.
        """
        node, now = self._nodes[node_id], trio.current_time()
        if self._nursery is not None and node.can_connect(now):
            node.connection_requested = True
            self._nursery.start_soon(self._connect, node)
            return False
        return node.can_send(now)

    # ---- requests

    def ask_nowait(
        self, node_id: int, request: Request[R], version: int | None = None, timeout_ms: float | None = None
    ) -> PendingResponse[R]:
        """Send a request on the open connection to a node, and return the pending response.

        Raise Disconnected if no connection is open, and UnsupportedVersion if the broker lacks the API. `timeout_ms` is
        `request.timeout.ms` by default.
        """
        limit_ms = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = trio.current_time() + limit_ms / 1000
        pending = self._nodes[node_id].ask_nowait(request, version, deadline)
        if deadline < self._alarm_at:
            self._alarm_at = deadline
            self._earlier.set()
        return pending

    async def ask(
        self, node_id: int, request: Request[R], version: int | None = None, timeout_ms: float | None = None
    ) -> R:
        """Send a request on the open or a new connection to a node, and return the response.

        Raise OSError if no connection can be opened; nothing was sent then. Raise Disconnected if the connection ends
        before the response. A throttle time in the response delays the next request to the node.
        """
        connection = await self.connection(node_id)
        response = await connection.response(self.ask_nowait(node_id, request, version, timeout_ms))
        self.throttle(node_id, getattr(response, "throttle_time_ms", 0))
        return response

    async def connection(self, node_id: int) -> BrokerConnection:
        """Return the open connection to a node, or try once to open one, after backoff and throttle time.

        Raise OSError or Disconnected if no connection can be opened.
        """
        node = self._nodes[node_id]
        await trio.sleep_until(node.throttled_until)
        return await node.link.connection()

    def send_nowait(self, node_id: int, request: Request[Any], version: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0) on the open connection to a node.

        Raise Disconnected if no connection is open.
        """
        self._nodes[node_id].send_nowait(request, version)

    async def send(self, node_id: int, request: Request[Any], version: int | None = None) -> None:
        """Send a request that has no response on the open or a new connection, and wait until the kernel takes it."""
        await self.connection(node_id)
        await self._nodes[node_id].send(request, version)

    def throttle(self, node_id: int, throttle_time_ms: float) -> None:
        """Send no request to a node for the throttle time of a response (KIP-219)."""
        if throttle_time_ms > 0:
            self._nodes[node_id].throttled_until = trio.current_time() + throttle_time_ms / 1000

    # ---- the end of connections

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection to a node. Its requests in flight fail with this reason."""
        node = self._nodes[node_id]
        node.link.close(Disconnected(f"node {node_id} ({node.link.address}): {reason}"))

    def close(self, reason: str = "the client was closed") -> None:
        for node_id in list(self._nodes):
            self.disconnect(node_id, reason)

    @property
    def is_running(self) -> bool:
        """Whether `run` is running, so that nodes can be connected."""
        return self._nursery is not None

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open connections, and close those that are idle or whose requests time out, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await self._expire()
            finally:
                self._nursery = None
                self.close()

    # ---- internals

    async def _expire(self) -> None:
        while True:
            self._earlier = trio.Event()
            now = await late_at()
            self._alarm_at = min((node.expire(now) for node in list(self._nodes.values())), default=inf)
            with trio.move_on_at(self._alarm_at):
                await self._earlier.wait()

    @trio.lowlevel.enable_ki_protection
    async def _connect(self, node: ClusterNode) -> None:
        try:
            await node.link.connection()
        except (OSError, Disconnected) as error:
            logger.warning("no connection to node %s (%s): %s", node.node_id, node.link.address, error)
        finally:
            node.connection_requested = False

    def _new_node(self, broker: ClusterBroker) -> ClusterNode:
        settings = self.settings
        link = ReconnectingConnection(
            self._net,
            broker.host,
            broker.port,
            settings.client_id,
            Backoff(self._uniform, settings.reconnect_backoff_ms, settings.reconnect_backoff_ms_max),
            settings.response_bytes_max,
            Backoff(self._uniform, settings.setup_timeout_ms, settings.setup_timeout_ms_max),
            settings.request_timeout_ms / 1000,
            security=settings.security,
        )
        node = ClusterNode(broker.node_id, link, settings)
        link.on_opened = partial(self._opened, node)
        link.on_lost = partial(self._call, self._on_lost, node.node_id)
        link.on_refused = self._refused
        link.is_trusted = lambda: self._has_connected
        return node

    def _opened(self, node: ClusterNode) -> None:
        connection = node.connection()
        self._has_connected, self._refusal = True, None
        connection.name = f"node {node.node_id} ({node.link.address})"
        connection.call_when_sent(partial(self._call, self._on_ready, node.node_id))
        if connection.features_epoch > self._features_epoch:
            self.features, self._features_epoch = connection.features, connection.features_epoch
        node.used_at = trio.current_time()
        self._earlier.set()  # the connection may become idle before the next deadline
        self._call(self._on_ready, node.node_id)

    def _refused(self, error: AuthenticationError) -> None:
        self._refusal = error
        for callback in self._on_refused:
            callback(error)

    def _call(self, callbacks: list[Callable[[int], None]], node_id: int) -> None:
        for callback in callbacks:
            callback(node_id)


def coordinator_connection_id(node_id: int) -> int:
    """Return the id under which Kafka's clients connect to the coordinator with this node id."""
    return NODE_ID_MAX - node_id
