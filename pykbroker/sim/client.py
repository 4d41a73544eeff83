"""A simulated client's connection to a broker. It sends requests in random supported versions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Any, TypeVar

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import BrokerConnection
from pykbroker.client.errors import Disconnected, InvalidResponse
from pykbroker.client.pending_response import PendingResponse, R
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.sim.history import Place
from pykbroker.world.net import Net
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import NIL, Request
from wire.error_codes import ErrorCode
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX = 300, 1000


class Again(Exception):
    """An error for a broker that cannot serve a request now. The client starts a new session on another connection."""


LOST = (OSError, Disconnected, Again, trio.TooSlowError)
"""The errors after which a client abandons its connection and starts a new session on another one."""
TEMPORARY = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
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
"""The retriable error codes. After some of them, it is unknown whether the request was carried out."""
ANSWER_S = 8.0
METADATA_VERSION, COORDINATOR_VERSION = 12, 4
VERSION_MAX = 2**15 - 1


class SimConnection:
    """A connection to the broker, for one session of a client.

    `topic_ids` has the topic ids by name, and `topic_names` has the names by id.
    """

    def __init__(self, connection: BrokerConnection, dice: Random) -> None:
        self._connection, self.dice = connection, dice
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}

    async def describe(self, topics: list[str]) -> None:
        """Request the ids of these topics. Raise an error of LOST if the connection is lost."""
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        answer = await self.ask(asked, METADATA_VERSION)
        self.note_metadata(answer)

    def note_metadata(self, answer: MetadataResponse) -> None:
        """Take the ids of the topics from a response."""
        self.topic_ids = {topic.name: topic.topic_id for topic in answer.topics if topic.name and not topic.error_code}
        self.topic_names = {topic_id: name for name, topic_id in self.topic_ids.items()}

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic at the time of `describe`, or NIL if the topic did not exist."""
        return self.topic_ids.get(topic, NIL)

    def topic_named(self, topic: str, topic_id: bytes) -> str:
        """Return the name of a topic that a response names, or identifies by its id in newer versions."""
        return topic or self.topic_names.get(topic_id, "")

    async def reach(self, places: Iterable[Place]) -> None:
        """Connect to the leaders of these partitions, so that `ask_nowait` can send requests to them.

        One broker leads all partitions. Raise an error of LOST if the connection is lost.
        """

    async def refresh(self) -> None:
        """Learn the leaders again if an error has shown that they may have changed. One broker has no others.

        Raise an error of LOST if the connection is lost.
        """

    def any_version(self, key: ApiKey, first: int = 0, last: int = VERSION_MAX) -> int:
        """Return a random version in this range that both sides support."""
        ours, theirs = APIS[key].accepted, self._connection.versions[key]
        return self.dice.randint(max(ours.first, theirs.first, first), min(ours.last, theirs.last, last))

    def ask_nowait(self, request: Request[R], version: int) -> PendingResponse[R]:
        """Send a request, and return its pending response. Raise an error of LOST if the connection is lost."""
        with invalid_responses_reported():
            return self._connection.ask_nowait(request, version)

    async def response(self, pending: PendingResponse[R]) -> R:
        """Wait for the response to a request.

        Raise an error of LOST if the connection ended or the response took too long.
        """
        with trio.fail_after(ANSWER_S), invalid_responses_reported():
            return await self._connection.response(pending)

    async def ask(self, request: Request[R], version: int) -> R:
        """Send a request and wait for its response. Raise an error of LOST as `response` does."""
        return await self.response(self.ask_nowait(request, version))

    async def send(self, request: Request[Any], version: int) -> None:
        """Send a request that has no response. Raise an error of LOST if the connection is lost."""
        with invalid_responses_reported():
            await self._connection.send(request, version)

    async def find_coordinator(self, key: str, key_type: int) -> None:
        """Require that the broker coordinates a group or a transactional id. Raise Again if it does not do so yet."""
        answer = await self.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type), COORDINATOR_VERSION)
        if code := answer.coordinators[0].error_code:
            raise Again(ErrorCode(code).name)


class Dialer:
    """The connector of a client, which opens one connection at a time, with a backoff between two."""

    def __init__(self, net: Net, host: str, broker: tuple[str, int], topics: list[str], dice: Random) -> None:
        self._topics, self.dice = topics, dice
        backoff = Backoff(dice.uniform, RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MS_MAX)
        self._reconnecting = ReconnectingConnection(net, *broker, host, backoff)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[SimConnection]:
        """Open a connection that has negotiated versions and topics, and close it when the block ends.

        Raise an error of LOST if the connection is lost.
        """
        with trio.fail_after(ANSWER_S), invalid_responses_reported():
            connection = await self._reconnecting.connection()
        try:
            session = SimConnection(connection, self.dice)
            await session.describe(self._topics)
            yield session
        finally:
            self._reconnecting.close()

    async def until_answered(self, request: Callable[[SimConnection], Awaitable[T]]) -> T:
        """Repeat a request until a broker answers, and return what it returns."""
        while True:
            try:
                async with self.connected() as connection:
                    return await request(connection)
            except LOST:
                continue


@contextmanager
def invalid_responses_reported() -> Iterator[None]:
    """Raise AssertionError for bytes that are no valid response, since no simulated fault makes a broker send them."""
    try:
        yield
    except InvalidResponse as error:
        raise AssertionError(str(error)) from error
