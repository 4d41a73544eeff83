"""A topic that an operator deletes and creates again under the same name while brokers fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import trio

from pykbroker.sim.checkers import check
from pykbroker.sim.client import TEMPORARY, Again, SimConnection
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.consumer import read_all
from pykbroker.sim.history import History, Place, PollResult, Send, SendOutcome
from pykbroker.sim.log_workload import unread
from pykbroker.sim.producer import TIMEOUT_MS
from pykbroker.sim.workload import PROGRESS_S_MAX
from wire.api import ApiKey
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import BatchBuilder
from wire.sentinels import ACKS_ALL

TOPIC = "brief"
PLACES: tuple[Place, ...] = ((TOPIC, 0), (TOPIC, 1))
OF_CONTROLLERS = (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NOT_CONTROLLER)
"""The errors of a controller that may pass: too few brokers are registered, or the disk of its metadata log failed."""
PRODUCE_BY_ID, DELETE_STATES = 13, 6
"""The first version of Produce that names topics by id, and the first of DeleteTopics that has `topics`."""
ANSWER_S_MAX = 5.0
"""The time in seconds after which a request that no broker answers is left alone. It may still be carried out."""
PAUSED, PAUSE_S_MAX = 0.5, 2.0
"""The chance of a pause between deletion and creation, and its longest duration in seconds."""


class BriefTopic:
    """The topic. Each topic id has its own history, since no record survives a deletion."""

    def __init__(self, stage: ClusterStage, replicas: int, dice: Random) -> None:
        self._stage, self._replicas, self._dice = stage, replicas, dice
        self._histories: dict[bytes, History] = {}
        self._values = 0

    async def recreate(self) -> None:
        """Delete the topic, create it again, and write to all its partitions."""
        await self._ask(self._delete)
        if self._dice.random() < PAUSED:
            await trio.sleep(self._dice.uniform(0, PAUSE_S_MAX))
        await self._ask(self._create)
        await self._ask(self._write)

    async def judge(self) -> list[str]:
        """Read the topic, if it exists, and check the history of its id."""
        final: list[PollResult] = []
        found: list[str] = []
        if self._histories:
            with trio.move_on_after(PROGRESS_S_MAX) as late:
                found = await self._stage.until_answered(lambda connection: self._read(connection, final))
            if late.cancelled_caught:
                found = unread(PLACES, final)
        return found

    async def _ask(self, request: Callable[[SimConnection], Awaitable[None]]) -> None:
        with trio.move_on_after(ANSWER_S_MAX):
            await self._stage.until_answered(request)

    async def _delete(self, connection: SimConnection) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(TOPIC)], timeout_ms=TIMEOUT_MS)
        answer = await connection.ask(request, connection.any_version(ApiKey.DELETE_TOPICS, first=DELETE_STATES))
        require(answer.responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _create(self, connection: SimConnection) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=len(PLACES), replication_factor=self._replicas)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        answer = await connection.ask(request, connection.any_version(ApiKey.CREATE_TOPICS))
        require(answer.topics[0].error_code, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def _write(self, connection: SimConnection) -> None:
        """Write a record to each partition of the topic id that a broker names, which may be a deleted one."""
        topic_id = await described(connection)
        if topic_id == NIL:
            raise Again(f"{TOPIC} does not exist")
        history = self._histories.setdefault(topic_id, History(self._stage.unexpected))
        for place in PLACES:
            self._values += 1
            send = Send("operator", place, (f"{place[0]}-{place[1]}/{self._values}".encode(),))
            history.sends.append(send)
            await self._produce(connection, topic_id, send)

    async def _produce(self, connection: SimConnection, topic_id: bytes, send: Send) -> None:
        builder = BatchBuilder()
        builder.append(None, send.values[0], (), self._stage.wall_ms())
        data = TopicProduceData(TOPIC, topic_id, [PartitionProduceData(send.place[1], builder.build())])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[data])
        answer = await connection.ask(request, connection.any_version(ApiKey.PRODUCE, first=PRODUCE_BY_ID))
        result = answer.responses[0].partition_responses[0]
        require(result.error_code)
        send.outcome, send.base_offset = SendOutcome.ACKNOWLEDGED, result.base_offset

    async def _read(self, connection: SimConnection, final: list[PollResult]) -> list[str]:
        """Read all partitions and return the findings, none if the topic does not exist. Raise an error of LOST."""
        final.clear()
        topic_id = await described(connection)
        if topic_id == NIL:
            return []
        history = self._histories.setdefault(topic_id, History(self._stage.unexpected))
        for place in PLACES:
            final.append(await read_all(connection, place, history))
        return [f"{each.kind} in {each.place}: {each.what}" for each in check(history, final, replicated=True)]


async def described(connection: SimConnection) -> bytes:
    """Return the id of the topic, or NIL if it does not exist. Raise an error of LOST."""
    await connection.describe([TOPIC])
    return connection.topic_id(TOPIC)


def require(code: int, accepted: ErrorCode = ErrorCode.NONE) -> None:
    """Raise Again for an error that may pass, and AssertionError for one that never does."""
    if code in (ErrorCode.NONE, accepted):
        return
    error = ErrorCode(code)
    assert error in TEMPORARY or error in OF_CONTROLLERS, error.name
    raise Again(error.name)
