"""Produce (0), v3-13: append one record batch to each partition, and respond as `acks` requires.

v3 record batches only (magic 2), transactional id   v5 log start offset   v7 zstd   v8 record errors (KIP-467)
v9 flexible   v10 current leader in errors (KIP-951)   v11 TRANSACTION_ABORTABLE (KIP-890)
v12 transactions without AddPartitionsToTxn (KIP-890)   v13 topic ids (KIP-516)
A request with acks=0 gets no response; an error closes its connection.
The first batch of a transaction in a partition is appended after the transaction coordinator has verified that the
partition is part of the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import ClassVar

import msgspec
import trio

from pykbroker.coordinator.admission import Admission
from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.errors import ApiError, KeysRequired
from pykbroker.core.log.verification import Verification
from pykbroker.core.names import INTERNAL_TOPICS
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.replicas import Replicas, TopicReplicas
from pykbroker.server.handler import NO_RESPONSE, Answer, CloseConnection, Handler, Later, RequestContext
from pykbroker.server.leader_hints import WRONG_LEADER, LeaderHints
from wire.api import ApiKey
from wire.declare import Buffer, Response
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from wire.records.batch import CODEC_MASK, MAGIC, TRANSACTIONAL, Batch
from wire.records.compression import Codec

AT_ONCE_MAX = 64
"""The number of partitions that a large request appends to in one step of the event loop."""
ACKS_ALL = -1
ACKS = (ACKS_ALL, 0, 1)
MAGIC_AT, ATTRIBUTES_END = 16, 22
"""Byte positions in a batch: of the magic byte, and of the low byte of the attributes."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
WRITE, TOPIC = Operation.WRITE, ResourceType.TOPIC
"""Enum members as module constants, because looking up an enum member costs as much as a call."""
LEADER_VERSION_FIRST = 10
ZSTD_VERSION_FIRST, ABORTABLE_VERSION_FIRST, ADDED_VERSION_FIRST = 7, 11, 12
UNREACHED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)
"""Coordinator errors that producers do not expect from Produce. They become NOT_ENOUGH_REPLICAS, which is retriable."""


class Produce(Handler, msgspec.Struct, frozen=True):
    """A handler that responds at once if it can.

    The handler validates large batches off the event loop, and waits for flushes and followers where the request or the
    config requires it.
    """

    key: ClassVar = ApiKey.PRODUCE
    versions: ClassVar[str] = "3-13"
    replicas: Replicas
    authorizer: Authorizer
    wall_ms: Callable[[], int]
    transactions: TransactionRequests
    verifies: Callable[[], bool]
    """Whether the broker verifies the first batch of a transaction of version 0 or 1.

    The config is `transaction.partition.verification.enable`.
    """
    hints: LeaderHints

    def __call__(self, context: RequestContext, request: ProduceRequest) -> Answer:
        if request.acks not in ACKS:
            return self.refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
        if request.transactional_id is not None:
            return self._in_transaction(context, request, request.transactional_id)
        return self._append(context, request)

    def handle_large(self, context: RequestContext, request: ProduceRequest) -> Answer:
        """Handle a request like `__call__`, but append to at most `AT_ONCE_MAX` partitions in each step of the loop."""
        many = sum(len(data.partition_data) for data in request.topic_data) > AT_ONCE_MAX
        if not many or request.acks not in ACKS or request.transactional_id is not None:
            return self(context, request)
        return Later(self._append_many(context, request), holds_connection=True)

    async def _append_many(self, context: RequestContext, request: ProduceRequest) -> Answer:
        answers = []
        for piece in pieces(request):
            answer = self._append(context, piece)
            answers.append(await ended(answer) if isinstance(answer, Later) and answer.holds_connection else answer)
            await trio.lowlevel.checkpoint()
        return Later(joined(request, answers), holds_connection=False)

    def _append(self, context: RequestContext, request: ProduceRequest, admission: Admission | None = None) -> Answer:
        """Append every batch. For a batch that begins a transaction, `admission` has the coordinator's verification."""
        now_ms = self.wall_ms()
        response = ProduceResponse([])
        unsettled: list[Unsettled] = []
        misled: list[tuple[str, PartitionProduceResponse]] = []
        for data in request.topic_data:
            answers: list[PartitionProduceResponse] = []
            response.responses.append(TopicProduceResponse(data.name, data.topic_id, answers))
            try:
                topic = self._topic(context, data.name, data.topic_id)
            except ApiError as error:
                answers += [failed(part.index, error) for part in data.partition_data]
                continue
            for part in data.partition_data:
                answer = append(topic, part, request, now_ms, unsettled, admission, context.version)
                answers.append(answer)
                if answer.error_code:
                    self._note_error(topic.name, answer, misled)
        if misled and context.version >= LEADER_VERSION_FIRST:
            self._tell_leaders(context, response, misled)
        if not unsettled:
            return response if request.acks else unanswered(response)
        if any(one.unopened for one in unsettled):
            return Later(self._open(context, request, response, unsettled, now_ms), holds_connection=True)
        return Later(self._settle(context, request, response, unsettled), holds_connection=False)

    async def _open(
        self,
        context: RequestContext,
        request: ProduceRequest,
        response: ProduceResponse,
        unsettled: list[Unsettled],
        now_ms: int,
    ) -> Answer:
        """Append the unopened batches, then return the coroutine that settles the response.

        Later requests of the connection may start as soon as the batches are appended.
        """
        await open_batches(unsettled, now_ms, acks_all=request.acks == ACKS_ALL)
        return Later(self._settle(context, request, response, unsettled), holds_connection=False)

    async def _settle(
        self, context: RequestContext, request: ProduceRequest, response: ProduceResponse, unsettled: list[Unsettled]
    ) -> Response:
        """Wait until all results are final, and add the leaders of partitions whose leadership has ended meanwhile."""
        settled = await settle(request, response, unsettled)
        if context.version >= LEADER_VERSION_FIRST:
            misled = [(one.partition.topic, one.answer) for one in unsettled if one.answer.error_code in WRONG_LEADER]
            if misled:
                self._tell_leaders(context, response, misled)
        return settled

    def _note_error(
        self, topic: str, answer: PartitionProduceResponse, misled: list[tuple[str, PartitionProduceResponse]]
    ) -> None:
        """Correct the error of a partition that other brokers have, and note results that must name the leader."""
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            answer.error_code = self.replicas.why_absent(TopicPartition(topic, answer.index))
        if answer.error_code in WRONG_LEADER:
            misled.append((topic, answer))

    def _tell_leaders(
        self, context: RequestContext, response: ProduceResponse, misled: list[tuple[str, PartitionProduceResponse]]
    ) -> None:
        """Add the current leaders and their endpoints to the response (KIP-951)."""
        endpoints = {endpoint.node_id: endpoint for endpoint in response.node_endpoints}
        for topic, answer in misled:
            hint = self.hints.find(topic, answer.index, context.session)
            if hint is not None:
                answer.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                if hint.endpoint is not None:
                    endpoints[hint.leader_id] = NodeEndpoint(*hint.endpoint)
        response.node_endpoints = list(endpoints.values())

    def refuse(self, request: ProduceRequest, code: ErrorCode, message: str | None = None) -> Response:
        """Return a response with the error `code` for every partition."""
        error = ApiError(code, message)
        response = ProduceResponse(
            [
                TopicProduceResponse(
                    data.name, data.topic_id, [failed(part.index, error) for part in data.partition_data]
                )
                for data in request.topic_data
            ]
        )
        return response if request.acks else unanswered(response)

    def _in_transaction(self, context: RequestContext, request: ProduceRequest, transactional_id: str) -> Answer:
        """Append the batches of a transactional request.

        The coordinator verifies partitions that are new to the transaction; meanwhile the connection reads no further
        request.
        """
        found = self._transactional(context, request)
        if not found:
            return self._append(context, request)
        if not self.authorizer.allows(context.session, WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return self.refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if len({batch.producer_id for _, _, batch in found}) > 1:
            return self.refuse(
                request,
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "Transactional records contained more than one producer ID",
            )
        adds, (_, _, batch) = context.version >= ADDED_VERSION_FIRST, found[0]
        admission = Admission(batch.producer_id, batch.producer_epoch, adds=adds, now_ms=self.wall_ms())
        for place, partition, batch in found:
            admission.begin(place, partition.require_leader().producers, batch.base_sequence)
        if not admission.verifications or not (adds or self.verifies()):
            return self._append(context, request, admission)
        admitting = self._admit(context, request, transactional_id, admission)
        return Later(admitting, holds_connection=True, awaits_node=True)

    def _transactional(
        self, context: RequestContext, request: ProduceRequest
    ) -> list[tuple[TopicPartition, Partition, Batch]]:
        """Return the transactional batches whose headers are valid and whose partitions the client may write to."""
        found = []
        for data in request.topic_data:
            for part in data.partition_data:
                if is_transactional(part.records or b""):
                    try:
                        topic = self._topic(context, data.name, data.topic_id)
                        partition, batch = topic.partitions[part.index], Batch.read(part.records or b"")
                        partition.require_leader()
                    except (ApiError, DecodeError, KeyError):
                        continue  # the append reports the error
                    if batch.producer_id >= 0:
                        found.append((partition.key, partition, batch))
        return found

    async def _admit(
        self, context: RequestContext, request: ProduceRequest, transactional_id: str, admission: Admission
    ) -> Answer:
        await admission.ask(self.transactions, transactional_id)
        return self._append(context, request, admission)

    def _topic(self, context: RequestContext, name: str, topic_id: bytes) -> TopicReplicas:
        topic = self.replicas.topic(name, topic_id)
        if not self.authorizer.allows(context.session, WRITE, TOPIC, topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        return topic


def pieces(request: ProduceRequest) -> Iterator[ProduceRequest]:
    """Yield the request in pieces of at most `AT_ONCE_MAX` partitions of one topic, each with a response of its own."""
    for data in request.topic_data:
        for at in range(0, max(1, len(data.partition_data)), AT_ONCE_MAX):
            few = TopicProduceData(data.name, data.topic_id, data.partition_data[at : at + AT_ONCE_MAX])
            yield ProduceRequest(None, request.acks or 1, request.timeout_ms, [few])


async def ended(later: Later) -> Answer:
    """Wait until the coroutine of an answer has ended."""
    assert isinstance(later.work, Coroutine)
    return await later.work


async def joined(request: ProduceRequest, answers: list[Answer]) -> Response:
    """Wait for the responses to all pieces of a large request, and return them as one response."""
    response = ProduceResponse([])
    for answer in answers:
        part = await ended(answer) if isinstance(answer, Later) else answer
        assert isinstance(part, ProduceResponse)
        response.node_endpoints += part.node_endpoints
        for topic in part.responses:
            last = response.responses[-1] if response.responses else None
            if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
                last.partition_responses += topic.partition_responses
            else:
                response.responses.append(topic)
    return response if request.acks else unanswered(response)


def not_admitted(code: ErrorCode, version: int) -> ApiError:
    """Return the coordinator's refusal as an error that producers of this request version understand."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION_FIRST:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in UNREACHED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDED_VERSION_FIRST):
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return ApiError(code)


def is_transactional(data: Buffer) -> bool:
    """Whether the header marks a transactional batch; False if the header is incomplete."""
    return len(data) > ATTRIBUTES_END and data[ATTRIBUTES_END] & TRANSACTIONAL != 0 and data[MAGIC_AT] == MAGIC


def is_zstd(data: Buffer) -> bool:
    """Whether the header marks a batch compressed with zstd; False if the header is incomplete."""
    return len(data) > ATTRIBUTES_END and data[ATTRIBUTES_END] & CODEC_MASK == Codec.ZSTD and data[MAGIC_AT] == MAGIC


def append(
    topic: TopicReplicas,
    part: PartitionProduceData,
    request: ProduceRequest,
    now_ms: int,
    unsettled: list[Unsettled],
    admission: Admission | None,
    version: int,
) -> PartitionProduceResponse:
    """Append one partition's batch and return its result; a result that is not final is added to `unsettled`."""
    partition = topic.partitions.get(part.index)
    if partition is None:
        return failed(part.index, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    data, verification, acks_all = part.records or b"", None, request.acks == ACKS_ALL
    if version < ZSTD_VERSION_FIRST and is_zstd(data):
        return failed(part.index, ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no zstd in version {version}"))
    if is_transactional(data):
        place = partition.key
        if request.transactional_id is None:
            return failed(part.index, ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        if admission is not None:
            if place in admission.refused:
                refusal = not_admitted(admission.refused[place], version)
                partition.refused.note(partition.log, data, refusal.code, now_ms)
                return failed(part.index, refusal)
            verification = admission.verifications.get(place)
    try:
        appended = partition.append(data, now_ms, verification, acks_all)
    except ApiError as error:
        partition.traffic.refuse_append(error.code)
        return refused(PartitionProduceResponse(part.index), error, partition)
    if appended is None:
        answer = PartitionProduceResponse(part.index)
        unsettled.append(Unsettled(partition, answer, unopened=data, verification=verification))
        return answer
    log = partition.log
    assert log is not None
    answer = PartitionProduceResponse(
        part.index, 0, appended.base_offset, appended.log_append_time_ms, log.state.log_start_offset
    )
    end_offset = appended.last_offset + 1
    if not partition.may_acknowledge(end_offset, acks_all):
        unsettled.append(Unsettled(partition, answer, end_offset if acks_all else 0, partition.leader_epoch))
    return answer


class Unsettled(msgspec.Struct):
    """A partition's result that is not final. `offset` is the high watermark that it waits for, or 0.

    `leader_epoch` is the epoch in which the batch was appended, or -1 before.
    """

    partition: Partition
    answer: PartitionProduceResponse
    offset: int = 0
    leader_epoch: int = -1
    unopened: Buffer = b""
    """A batch that is not yet appended: its records must be read, which would take too long on the event loop."""
    verification: Verification | None = None

    async def open(self, now_ms: int, acks_all: bool) -> None:
        """Read the records off the event loop and append the batch."""
        answer, partition = self.answer, self.partition
        appended = await partition.append_off_loop(self.unopened, now_ms, self.verification, acks_all)
        self.unopened, self.offset = b"", appended.last_offset + 1 if acks_all else 0
        self.leader_epoch = partition.leader_epoch
        answer.base_offset, answer.log_append_time_ms = appended.base_offset, appended.log_append_time_ms
        answer.log_start_offset = partition.require_leader().state.log_start_offset

    async def commit(self) -> None:
        """Wait until the high watermark reaches `offset`."""
        await self.partition.wait_committed(self.offset, self.leader_epoch)

    def check(self) -> None:
        """Turn the result into an error if the high watermark has not reached `offset`, or if the leadership ended."""
        if not self.answer.error_code:
            if self.partition.leader_epoch != self.leader_epoch:
                self.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif self.partition.high_watermark < self.offset:
                self.answer.error_code = ErrorCode.REQUEST_TIMED_OUT


async def open_batches(unsettled: list[Unsettled], now_ms: int, *, acks_all: bool) -> None:
    """Append the unopened batches. An error becomes the result of its partition."""
    for each in unsettled:
        if each.unopened:
            await attempt(each, each.open, now_ms, acks_all)


async def settle(request: ProduceRequest, response: ProduceResponse, unsettled: list[Unsettled]) -> Response:
    """Flush the logs that are due, and wait for followers up to the request's timeout."""
    forget_records(request)
    for each in unsettled:  # no timeout: nothing is acknowledged before it is flushed
        await attempt(each, each.partition.flush_if_due)
    with trio.move_on_after(max(0, request.timeout_ms) / 1000):
        for each in unsettled:
            await attempt(each, each.commit)
    for each in unsettled:
        each.check()
    return response if request.acks else unanswered(response)


async def attempt(each: Unsettled, step: Callable[..., Awaitable[None]], *args: object) -> None:
    """Run a step for a partition that has not failed; an error becomes the partition's result."""
    if not each.answer.error_code:
        try:
            await step(*args)
        except ApiError as error:
            if each.unopened:
                each.partition.traffic.refuse_append(error.code)
            refused(each.answer, error, each.partition)


def forget_records(request: ProduceRequest) -> None:
    """Release the request's records, which are in the log and need no memory while the response waits."""
    for data in request.topic_data:
        for part in data.partition_data:
            part.records = None


def unanswered(response: ProduceResponse) -> Response:
    """Return the result of acks=0. An error closes the connection, because no response can report it."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                name, message = ErrorCode(answer.error_code).name, answer.error_message or ""
                raise CloseConnection(f"Produce with acks=0 failed: {name} {message}")
    return NO_RESPONSE


def refused(answer: PartitionProduceResponse, error: ApiError, partition: Partition) -> PartitionProduceResponse:
    """Fill in the result of a refused batch, with the record errors in Kafka's wording."""
    answer.error_code, answer.base_offset, answer.error_message = error.code, -1, error.message
    if isinstance(error, KeysRequired) and partition.log is not None:
        message = (
            f"Compacted topic cannot accept message without key in topic partition {partition.topic}-{partition.index}"
        )
        first = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index in error.indexes[:3])
        answer.error_message = (
            f"One or more records have been rejected due to {error.count} record errors in total, "
            f"and only showing the first three errors at most: [{first}]"
        )
        answer.record_errors = [BatchIndexAndErrorMessage(index, message) for index in error.indexes]
        answer.log_start_offset = partition.log.log_start_offset
    return answer


def failed(index: int, error: ApiError) -> PartitionProduceResponse:
    """Return an error result; its offsets are -1."""
    return PartitionProduceResponse(index, error.code, -1, error_message=error.message)
