"""A simulated client's connection to its broker: requests in any version that both sides support."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Any

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import BrokerConnection
from pykbroker.client.errors import Disconnected, InvalidResponse
from pykbroker.client.pending_response import PendingResponse, R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.world.net import Net
from wire.api import APIS, ApiKey
from wire.declare import NIL, Request
from wire.error_codes import ErrorCode
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX = 300, 1000


class Again(Exception):
    """The error of a broker that cannot answer now. The client repeats its session on another connection."""


LOST = (OSError, Disconnected, Again, trio.TooSlowError)
"""The errors after which a client starts a new session on another connection."""
TEMPORARY = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Retriable errors. Some of them leave open whether the request was carried out."""
ANSWER_S = 8.0
METADATA_VERSION, COORDINATOR_VERSION = 12, 4
GROUP, TRANSACTION = 0, 1
"""Kinds of coordinator."""
VERSION_MAX = 2**15 - 1


class SimConnection:
    """A connection to the broker, for one session of a client. `topic_ids` by name, and `topic_names` by id."""

    def __init__(self, connection: BrokerConnection, dice: Random) -> None:
        self._connection, self.dice = connection, dice
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}

    async def describe(self, topics: list[str]) -> None:
        """Ask for the ids of these topics. LOST."""
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        answer = await self.ask(asked, METADATA_VERSION)
        self.topic_ids = {topic.name: topic.topic_id for topic in answer.topics if topic.name and not topic.error_code}
        self.topic_names = {topic_id: name for name, topic_id in self.topic_ids.items()}

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic as of `describe`, NIL if the topic did not exist."""
        return self.topic_ids.get(topic, NIL)

    def topic_named(self, topic: str, topic_id: bytes) -> str:
        """Return the name of a topic that a response names, or identifies by its id in newer versions."""
        return topic or self.topic_names.get(topic_id, "")

    def any_version(self, key: ApiKey, first: int = 0, last: int = VERSION_MAX) -> int:
        """Return a random version in this range that both sides support."""
        ours, theirs = APIS[key].accepted, self._connection.versions[key]
        return self.dice.randint(max(ours.first, theirs.first, first), min(ours.last, theirs.last, last))

    def ask_nowait(self, request: Request[R], version: int) -> PendingResponse[R]:
        """Send a request, and return what `response` waits for. LOST."""
        with invalid_responses_reported():
            return self._connection.ask_nowait(request, version)

    async def response(self, pending: PendingResponse[R]) -> R:
        """Wait for the response to a request. LOST: the connection ended, or it took too long."""
        with trio.fail_after(ANSWER_S), invalid_responses_reported():
            return await self._connection.response(pending)

    async def ask(self, request: Request[R], version: int) -> R:
        """Send a request and wait for its response. LOST: as in `response`."""
        return await self.response(self.ask_nowait(request, version))

    async def send(self, request: Request[Any], version: int) -> None:
        """Send a request that has no response. LOST."""
        with invalid_responses_reported():
            await self._connection.send(request, version)

    async def find_coordinator(self, key: str, key_type: int) -> None:
        """Wait until the broker can coordinate a group or a transactional id. Again: it cannot now."""
        answer = await self.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type), COORDINATOR_VERSION)
        if code := answer.coordinators[0].error_code:
            raise Again(ErrorCode(code).name)


class Dialer:
    """A client's way to its broker: one connection at a time, with a backoff between two."""

    def __init__(self, net: Net, host: str, broker: tuple[str, int], topics: list[str], dice: Random) -> None:
        self._topics, self.dice = topics, dice
        backoff = Backoff(dice.uniform, RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX)
        self._reconnecting = ReconnectingConnection(net, *broker, host, backoff)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[SimConnection]:
        """Open a connection that has negotiated versions and topics, and close it when the block ends. LOST."""
        with trio.fail_after(ANSWER_S), invalid_responses_reported():
            connection = await self._reconnecting.connection()
        try:
            session = SimConnection(connection, self.dice)
            await session.describe(self._topics)
            yield session
        finally:
            self._reconnecting.close()


@contextmanager
def invalid_responses_reported() -> Iterator[None]:
    """Raise AssertionError for bytes that are no valid response: no simulated fault makes a broker send them."""
    try:
        yield
    except InvalidResponse as error:
        raise AssertionError(str(error)) from error
