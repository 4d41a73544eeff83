"""A raw connection to a broker: requests go out in a row without waiting, and answers come back in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import trio

from pykbroker.sim.network import Network
from pykbroker.sim.process import Process
from pykbroker.sim.stream import SimStream, connect
from wire.api import APIS, ApiKey
from wire.declare import NIL, Request, Response
from wire.error_codes import ErrorCode
from wire.frame import LENGTH_BYTES, decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

R = TypeVar("R", bound=Response)
LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""A connection is of no more use."""
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


class Again(trio.BrokenResourceError):
    """The broker cannot now: begin anew on another connection."""


class SimConnection:
    """For one task. `topic_ids` by name, and `topic_names` by id."""

    def __init__(self, stream: SimStream, client_id: str, dice: Random) -> None:
        self._stream, self._client_id, self.dice = stream, client_id, dice
        self._buffer = bytearray()
        self._awaited: deque[tuple[int, int]] = deque()
        self._sent = 0
        self._versions: dict[int, range] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}

    async def negotiate(self, topics: list[str]) -> None:
        """Learn what the broker takes, and the ids of these topics."""
        taken = await self.call(ApiVersionsRequest(), ApiVersionsResponse, 0)
        self._versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in taken.api_keys}
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        answer = await self.call(asked, MetadataResponse, METADATA_VERSION)
        self.topic_ids = {topic.name: topic.topic_id for topic in answer.topics if topic.name and not topic.error_code}
        self.topic_names = {topic_id: name for name, topic_id in self.topic_ids.items()}

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic as of `negotiate`, NIL if the topic did not exist."""
        return self.topic_ids.get(topic, NIL)

    def topic_named(self, topic: str, topic_id: bytes) -> str:
        """Return the name of a topic that a response names, or identifies by its id in newer versions."""
        return topic or self.topic_names.get(topic_id, "")

    def any_version(self, key: ApiKey, first: int = 0, last: int = VERSION_MAX) -> int:
        """Return a random version in this range that both sides support."""
        ours = APIS[key].accepted
        return self.dice.choice(
            [version for version in self._versions[key] if version in ours and first <= version <= last]
        )

    async def send(self, request: Request[Any], version: int, *, answered: bool = True) -> None:
        """Send a request without waiting for its response."""
        self._sent += 1
        if answered:
            self._awaited.append((self._sent, version))
        await self._stream.send_all(encode_request(request, version, self._sent, self._client_id))

    async def receive(self, answer: type[R]) -> R:
        """Return the response to the oldest unanswered request. LOST: the connection ended, or it took too long."""
        expected, version = self._awaited.popleft()
        with trio.fail_after(ANSWER_S):
            frame = await self._frame()
        correlation_id, response = decode_response(answer, version, frame)
        assert correlation_id == expected, f"the answer to request {correlation_id} came where {expected} was due"
        return response

    async def call(self, request: Request[Any], answer: type[R], version: int) -> R:
        """Send, and wait for the answer."""
        await self.send(request, version)
        return await self.receive(answer)

    async def find_coordinator(self, key: str, key_type: int) -> None:
        """Ask who coordinates a group or a transactional id: the one broker does, as soon as it can. Again."""
        answer = await self.call(
            FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type),
            FindCoordinatorResponse,
            COORDINATOR_VERSION,
        )
        if code := answer.coordinators[0].error_code:
            raise Again(ErrorCode(code).name)

    async def _frame(self) -> bytes:
        size = int.from_bytes(await self._take(LENGTH_BYTES), "big")
        return await self._take(size)

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = await self._stream.receive_some()
            if not data:
                raise trio.BrokenResourceError("the broker closed the connection")
            self._buffer += data
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


@dataclass(frozen=True)
class Dialer:
    """A client's way to its broker."""

    network: Network
    process: Process
    host: str
    broker: tuple[str, int]
    topics: list[str]
    dice: Random

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[SimConnection]:
        """Open a connection that has negotiated versions and topics. LOST."""
        with trio.fail_after(ANSWER_S):
            stream = await connect(self.network, self.process, self.host, *self.broker)
        try:
            connection = SimConnection(stream, self.host, self.dice)
            await connection.negotiate(self.topics)
            yield connection
        finally:
            await trio.aclose_forcefully(stream)
