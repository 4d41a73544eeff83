"""The connections of a simulated client to all brokers of a cluster. Each request goes to the broker that serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import BrokerConnection
from pykbroker.client.pending_response import PendingResponse, R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.sim.client import (
    ANSWER_S,
    COORDINATOR_VERSION,
    RECONNECT_BACKOFF_MS,
    RECONNECT_BACKOFF_MS_MAX,
    Again,
    Dialer,
    SimConnection,
    invalid_responses_reported,
)
from pykbroker.sim.cluster.leader_table import LeaderTable
from pykbroker.sim.cluster.producer_ids import IssuedProducerIds
from pykbroker.sim.cluster.routes import CoordinatorKey, coordinator_key, merged, split
from pykbroker.sim.history import Place
from pykbroker.world.net import Net
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.metadata import MetadataResponse

CONNECT_S = 2.0
"""The time limit for opening a connection, so that a client soon tries another broker."""


class ClusterDialer(Dialer):
    """The connector of a client to a cluster. It keeps what the client knows about leaders from session to session.

    `bootstrap` has the addresses of some brokers. A session begins at a random one of them.
    """

    def __init__(
        self,
        net: Net,
        host: str,
        bootstrap: Iterable[tuple[str, int]],
        topics: list[str],
        dice: Random,
        producer_ids: IssuedProducerIds,
    ) -> None:
        self.dice, self.topics, self.table = dice, topics, LeaderTable()
        self.producer_ids = producer_ids
        self._net, self._host, self._bootstrap = net, host, list(bootstrap)
        self._links: dict[tuple[str, int], ReconnectingConnection] = {}

    async def link(self, address: tuple[str, int]) -> BrokerConnection:
        """Return the open connection to an address, or open one. Raise an error of LOST if that fails."""
        if address not in self._links:
            backoff = Backoff(self.dice.uniform, RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX)
            self._links[address] = ReconnectingConnection(self._net, *address, self._host, backoff)
        with trio.fail_after(CONNECT_S), invalid_responses_reported():
            return await self._links[address].connection()

    def open_link(self, address: tuple[str, int]) -> BrokerConnection:
        """Return the open connection to an address. Raise Again if no connection is open."""
        link = self._links.get(address)
        if link is None or link.current is None:
            raise Again(f"no connection to {address[0]} is open")
        return link.current

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[SimConnection]:
        """Begin a session with the topics and leaders that a random broker knows, and end it when the block ends.

        Raise an error of LOST if a connection is lost.
        """
        try:
            first = await self.link(self.dice.choice(self._bootstrap))
            session = ClusterConnection(first, self)
            await session.describe(self.topics)
            yield session
        finally:
            for link in self._links.values():
                link.close()


class ClusterConnection(SimConnection):
    """The connections of one session. A connection to a broker is opened when the first request needs it."""

    def __init__(self, first: BrokerConnection, dialer: ClusterDialer) -> None:
        super().__init__(first, dialer.dice)
        self._dialer, self._table = dialer, dialer.table
        self._coordinators: dict[CoordinatorKey, tuple[str, int]] = {}

    def note_metadata(self, answer: MetadataResponse) -> None:
        """Take the ids of the topics and the leaders of their partitions."""
        super().note_metadata(answer)
        self._table.note_metadata(answer)

    async def reach(self, places: Iterable[Place]) -> None:
        """Connect to the leaders of these partitions. Raise an error of LOST."""
        for place in places:
            await self._leader(self._table.leader_of(place))

    async def refresh(self) -> None:
        """Request the leaders if they are known to be stale. Raise an error of LOST."""
        if self._table.is_stale:
            await self.describe(self._dialer.topics)

    def ask_nowait(self, request: Request[R], version: int) -> PendingResponse[R]:
        """Send a request for one partition to its leader, to which a connection must be open.

        Raise an error of LOST.
        """
        ((node_id, part),) = split(request, self._table.leader_of).items()
        with invalid_responses_reported():
            return self._dialer.open_link(self._table.addresses[node_id]).ask_nowait(cast("Request[R]", part), version)

    async def send(self, request: Request[Any], version: int) -> None:
        """Send a request for one partition to its leader, without a response. Raise an error of LOST."""
        ((node_id, part),) = split(request, self._table.leader_of).items()
        with invalid_responses_reported():
            await (await self._leader(node_id)).send(part, version)

    async def response(self, pending: PendingResponse[R]) -> R:
        """Wait for a response, and note the leaders that it names. Raise an error of LOST."""
        answer = await super().response(pending)
        self._table.note_answer(cast("Any", answer), self.topic_named)
        return answer

    async def ask(self, request: Request[R], version: int) -> R:
        """Send a request to the brokers that serve it, and return their response. Raise an error of LOST.

        A request for partitions of several leaders is split, and the responses are merged.
        """
        if (key := coordinator_key(request)) is not None:
            return await self._ask_of(await self._coordinator(key), request, version)
        if split(request, lambda place: 0):
            await self.refresh()
        if isinstance(request, FetchRequest):
            self._table.name_epochs(request)
        leaders: dict[Place, int] = {}

        def leader_of(place: Place) -> int:
            return leaders.setdefault(place, self._table.leader_of(place))

        parts = split(request, leader_of)
        if not parts:
            return await self._ask_of(self._connection, request, version)
        connections = {node_id: await self._leader(node_id) for node_id in parts}
        with invalid_responses_reported():
            pending = {node_id: connections[node_id].ask_nowait(part, version) for node_id, part in parts.items()}
        answers = {node_id: await self.response(one) for node_id, one in pending.items()}
        return cast("R", merged(request, leaders.__getitem__, answers) if len(answers) > 1 else answers.popitem()[1])

    async def find_coordinator(self, key: str, key_type: int) -> None:
        """Find the coordinator of a group or a transactional id and connect to it. Raise an error of LOST."""
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        answer = await self._ask_of(self._connection, request, COORDINATOR_VERSION)
        (found,) = answer.coordinators
        if found.error_code:
            raise Again(ErrorCode(found.error_code).name)
        address = self._coordinators[key_type, key] = (found.host, found.port)
        await self._dialer.link(address)

    async def _coordinator(self, key: CoordinatorKey) -> BrokerConnection:
        if key not in self._coordinators:
            await self.find_coordinator(key[1], key[0])
        return await self._dialer.link(self._coordinators[key])

    async def _leader(self, node_id: int) -> BrokerConnection:
        return await self._dialer.link(self._table.addresses[node_id])

    async def _ask_of(self, connection: BrokerConnection, request: Request[R], version: int) -> R:
        with trio.fail_after(ANSWER_S), invalid_responses_reported():
            answer = await connection.ask(request, version)
        if isinstance(answer, InitProducerIdResponse) and not answer.error_code:
            assert isinstance(request, InitProducerIdRequest)
            self._dialer.producer_ids.note(request.transactional_id, answer.producer_id)
        return answer
