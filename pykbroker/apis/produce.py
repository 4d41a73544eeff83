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
from pykbroker.core.names import is_internal
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.replica.partition import Partition
from pykbroker.replica.replicas import Replicas, Topic
from pykbroker.server.handler import Answer, CloseConnection, Context, Held, Waiting
from pykbroker.storage.log import Appended
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.produce import (
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
)  # fmt: skip
from wire.records.batch import TRANSACTIONAL

ACKS_ALL, ACKS_LEADER, ACKS_NONE = -1, 1, 0
ATTRIBUTES_END = 22
"""Where the low byte of a batch's attributes is."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""


@dataclass(frozen=True)
class Produce:
    """Plain unless a batch is opened off the loop (`Held`), or the answer waits for a flush or for followers."""

    key: ClassVar = ApiKey.PRODUCE
    versions: ClassVar[str] = "3-13"
    replicas: Replicas
    authorizer: Authorizer
    wall_ms: Callable[[], int]

    def __call__(self, context: Context, request: ProduceRequest) -> Answer:
        if request.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
            return self.refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
        work = _Work(request, self.wall_ms())
        for data in request.topic_data:
            answers: list[PartitionProduceResponse] = []
            work.response.responses.append(TopicProduceResponse(data.name, data.topic_id, answers))
            try:
                topic = self._topic(context, data.name, data.topic_id)
            except ApiError as error:
                answers.extend(work.failed(part.index, error) for part in data.partition_data)
                continue
            for part in data.partition_data:
                work.append(topic, part, answers)
        if work.opened:
            return Held(work.finish_held())
        return work.finish()

    def refuse(self, request: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
        """The same error for every partition."""
        if request.acks == ACKS_NONE:
            raise CloseConnection(f"Produce with acks=0 failed: {code.name}")
        error = ApiError(code)
        return ProduceResponse([
            TopicProduceResponse(data.name, data.topic_id, [failed(part.index, error) for part in data.partition_data])
            for data in request.topic_data
        ])  # fmt: skip

    def _topic(self, context: Context, name: str, topic_id: bytes) -> Topic:
        topic = self.replicas.topic(name, topic_id)
        if not self.authorizer.allows(context.principal, Operation.WRITE, ResourceType.TOPIC, topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_internal(topic.name) and context.client_id != ADMIN_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        return topic


class _Work:
    """One request: what was appended, what must be opened first, and what the answer waits for."""

    def __init__(self, request: ProduceRequest, now_ms: int) -> None:
        self.request, self.now_ms = request, now_ms
        self.response = ProduceResponse([])
        self.opened: list[tuple[Partition, PartitionProduceData, list[PartitionProduceResponse], int]] = []
        self.uncommitted: list[tuple[Partition, PartitionProduceResponse, int]] = []
        self.unflushed: list[tuple[Partition, PartitionProduceResponse]] = []
        self.first_error: ApiError | None = None

    def append(self, topic: Topic, part: PartitionProduceData, answers: list[PartitionProduceResponse]) -> None:
        """Append one partition's batch, or note that it is to be opened off the loop."""
        partition = topic.partitions.get(part.index)
        try:
            if partition is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            data = part.records if part.records is not None else b""
            if len(data) > ATTRIBUTES_END and data[ATTRIBUTES_END] & TRANSACTIONAL:
                raise self._no_transaction()
            if partition.require_leader().needs_off_loop(data):
                self.opened.append((partition, part, answers, len(answers)))
                answers.append(PartitionProduceResponse(part.index))
                return
            answers.append(self._appended(partition, part.index, partition.append(data, self.now_ms)))
        except ApiError as error:
            answers.append(self.failed(part.index, error))

    def _no_transaction(self) -> ApiError:
        """Nobody coordinates transactions here, so a transactional batch is part of none."""
        if self.request.transactional_id is None:
            return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without an id")
        return ApiError(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")

    def finish(self) -> ProduceResponse | Waiting | None:
        """The answer, or a coroutine that waits for it."""
        if self.uncommitted or self.unflushed:
            return self._wait()
        return self._answer()

    async def finish_held(self) -> ProduceResponse | Waiting | None:
        """Append what had to be opened, in order, then as `finish`."""
        for partition, part, answers, place in self.opened:
            assert part.records is not None
            try:
                appended = await partition.append_off_loop(part.records, self.now_ms)
                answers[place] = self._appended(partition, part.index, appended)
            except ApiError as error:
                answers[place] = self.failed(part.index, error)
        return self.finish()

    def _appended(self, partition: Partition, index: int, appended: Appended) -> PartitionProduceResponse:
        log = partition.log
        assert log is not None
        answer = PartitionProduceResponse(
            index, 0, appended.base_offset, appended.log_append_time_ms, log.log_start_offset
        )
        if log.flush_due:
            self.unflushed.append((partition, answer))
        if self.request.acks == ACKS_ALL and partition.high_watermark <= appended.last_offset:
            self.uncommitted.append((partition, answer, appended.last_offset + 1))
        return answer

    def failed(self, index: int, error: ApiError) -> PartitionProduceResponse:
        """One partition's error; with acks=0 the first one closes the connection."""
        self.first_error = self.first_error or error
        return failed(index, error)

    async def _wait(self) -> ProduceResponse | None:
        for partition, answer in self.unflushed:  # nothing is acknowledged before its flush, however long that takes
            await self._settle(answer, partition.flush)
        with trio.move_on_after(max(0, self.request.timeout_ms) / 1000) as scope:
            for partition, answer, offset in self.uncommitted:
                await self._settle(answer, partition.wait_committed, offset)
        if scope.cancelled_caught:
            for partition, answer, offset in self.uncommitted:
                if partition.high_watermark < offset and not answer.error_code:
                    answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return self._answer()

    async def _settle(self, answer: PartitionProduceResponse, wait: Callable[..., Awaitable[None]], *args: int) -> None:
        """Wait for one partition; what goes wrong stands in its place of the response."""
        try:
            await wait(*args)
        except ApiError as error:
            answer.error_code = self.failed(answer.index, error).error_code

    def _answer(self) -> ProduceResponse | None:
        if self.request.acks != ACKS_NONE:
            return self.response
        if self.first_error is not None:
            raise CloseConnection(f"Produce with acks=0 failed: {self.first_error}")
        return None


def failed(index: int, error: ApiError) -> PartitionProduceResponse:
    """A partition's error; offsets are -1."""
    return PartitionProduceResponse(index, error.code, -1, error_message=error.message)
