"""Produce (0), v3-13: append one record batch to each partition, and answer as `acks` asks.

v3 record batches only (magic 2), transactional id   v5 log start offset   v7 zstd   v8 record errors (KIP-467)
v9 flexible   v10 current leader in errors (KIP-951)   v12 transactions without AddPartitionsToTxn (KIP-890)
v13 topic ids (KIP-516)
acks=0 answers nothing; an error then closes the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.names import INTERNAL_TOPICS
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.replica.partition import Partition
from pykbroker.replica.replicas import Replicas, Topic
from pykbroker.server.handler import Answer, CloseConnection, Context, Held, Waiting
from wire.api import ApiKey
from wire.declare import Buffer
from wire.error_codes import ErrorCode
from wire.messages.produce import (
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
)  # fmt: skip
from wire.records.batch import TRANSACTIONAL

ACKS_ALL = -1
ACKS = (ACKS_ALL, 0, 1)
ATTRIBUTES_END = 22
"""Where the low byte of a batch's attributes is."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
WRITE, TOPIC = Operation.WRITE, ResourceType.TOPIC
"""Looking up a member of an enum costs as much as a call."""


@dataclass(frozen=True)
class Produce:
    """Plain unless a batch is opened off the loop (`Held`), or the answer waits for a flush or for followers."""

    key: ClassVar = ApiKey.PRODUCE
    versions: ClassVar[str] = "3-13"
    replicas: Replicas
    authorizer: Authorizer
    wall_ms: Callable[[], int]

    def __call__(self, context: Context, request: ProduceRequest) -> Answer:
        if request.acks not in ACKS:
            return self.refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
        now_ms = self.wall_ms()
        response = ProduceResponse([])
        unsettled: list[Unsettled] = []
        for data in request.topic_data:
            answers: list[PartitionProduceResponse] = []
            response.responses.append(TopicProduceResponse(data.name, data.topic_id, answers))
            try:
                topic = self._topic(context, data.name, data.topic_id)
            except ApiError as error:
                answers += [failed(part.index, error) for part in data.partition_data]
                continue
            for part in data.partition_data:
                answers.append(append(topic, part, request, now_ms, unsettled))
        if not unsettled:
            return response if request.acks else unanswered(response)
        if any(one.unopened for one in unsettled):
            return Held(open_batches(request, response, unsettled, now_ms))
        return settle(request, response, unsettled)

    def refuse(self, request: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
        """The same error for every partition."""
        error = ApiError(code)
        response = ProduceResponse([
            TopicProduceResponse(data.name, data.topic_id, [failed(part.index, error) for part in data.partition_data])
            for data in request.topic_data
        ])  # fmt: skip
        return response if request.acks else unanswered(response)

    def _topic(self, context: Context, name: str, topic_id: bytes) -> Topic:
        topic = self.replicas.topic(name, topic_id)
        if not self.authorizer.allows(context.principal, WRITE, TOPIC, topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        return topic


def append(topic: Topic, part: PartitionProduceData, request: ProduceRequest, now_ms: int,
           unsettled: list[Unsettled]) -> PartitionProduceResponse:
    """Append one partition's batch; what its answer has to wait for goes to `unsettled`."""
    partition = topic.partitions.get(part.index)
    if partition is None:
        return failed(part.index, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    data = part.records or b""
    if len(data) > ATTRIBUTES_END and data[ATTRIBUTES_END] & TRANSACTIONAL:
        return failed(part.index, no_transaction(request))
    try:
        appended = partition.append(data, now_ms)
    except ApiError as error:
        return failed(part.index, error)
    if appended is None:
        answer = PartitionProduceResponse(part.index)
        unsettled.append(Unsettled(partition, answer, unopened=data))
        return answer
    log = partition.log
    assert log is not None
    answer = PartitionProduceResponse(
        part.index, 0, appended.base_offset, appended.log_append_time_ms, log.log_start_offset
    )
    uncommitted = request.acks == ACKS_ALL and partition.high_watermark <= appended.last_offset
    if uncommitted or log.flush_due:
        unsettled.append(Unsettled(partition, answer, appended.last_offset + 1 if uncommitted else 0))
    return answer


@dataclass(slots=True)
class Unsettled:
    """A partition's answer that is not final yet. `offset`: the high watermark it waits for, 0 for none."""

    partition: Partition
    answer: PartitionProduceResponse
    offset: int = 0
    unopened: Buffer = b""
    """A batch that is not appended: it must be opened, and is too large to open on the loop."""

    async def open(self, now_ms: int, acks_all: bool) -> None:
        """Append it, opened off the loop."""
        answer, partition = self.answer, self.partition
        appended = await partition.append_off_loop(self.unopened, now_ms)
        self.unopened, self.offset = b"", appended.last_offset + 1 if acks_all else 0
        answer.base_offset, answer.log_append_time_ms = appended.base_offset, appended.log_append_time_ms
        answer.log_start_offset = partition.require_leader().log_start_offset

    async def flush(self) -> None:
        """Make it durable where `flush.messages` asks for that."""
        if self.partition.require_leader().flush_due:
            await self.partition.flush()

    async def commit(self) -> None:
        """Wait for the followers."""
        await self.partition.wait_committed(self.offset)


async def open_batches(request: ProduceRequest, response: ProduceResponse, unsettled: list[Unsettled],
                       now_ms: int) -> Waiting:
    """Append what has to be opened; later requests may start after that, whatever the answer still waits for."""
    for each in unsettled:
        if each.unopened:
            await attempt(each.answer, each.open, now_ms, request.acks == ACKS_ALL)
    return settle(request, response, unsettled)


async def settle(request: ProduceRequest, response: ProduceResponse,
                 unsettled: list[Unsettled]) -> ProduceResponse | None:
    """Flush where that is due, and wait for followers as long as the client says."""
    forget_records(request)
    for each in unsettled:  # nothing is acknowledged before its flush, however long that takes
        await attempt(each.answer, each.flush)
    with trio.move_on_after(max(0, request.timeout_ms) / 1000):
        for each in unsettled:
            await attempt(each.answer, each.commit)
    for each in unsettled:
        if each.partition.high_watermark < each.offset and not each.answer.error_code:
            each.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response if request.acks else unanswered(response)


async def attempt(answer: PartitionProduceResponse, step: Callable[..., Awaitable[None]], *args: object) -> None:
    """Do this for a partition that has not failed; what goes wrong stands in its answer."""
    if not answer.error_code:
        try:
            await step(*args)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
            answer.base_offset = -1


def no_transaction(request: ProduceRequest) -> ApiError:
    """Nobody coordinates transactions here, so a transactional batch is part of none."""
    if request.transactional_id is None:
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without an id")
    return ApiError(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")


def forget_records(request: ProduceRequest) -> None:
    """What is in the log need not stay in memory while the answer waits."""
    for data in request.topic_data:
        for part in data.partition_data:
            part.records = None


def unanswered(response: ProduceResponse) -> ProduceResponse | None:
    """acks=0: None, but the first error closes the connection, for there is no other way to tell it."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                name, message = ErrorCode(answer.error_code).name, answer.error_message or ""
                raise CloseConnection(f"Produce with acks=0 failed: {name} {message}")
    return None


def failed(index: int, error: ApiError) -> PartitionProduceResponse:
    """A partition's error; offsets are -1."""
    return PartitionProduceResponse(index, error.code, -1, error_message=error.message)
