"""A transactional producer, this broker's transaction coordinator, and logs that verify batches as the broker does."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker, Producers
from pykbroker.core.producer.accumulator import BatchSettings, Leader, RecordAccumulator
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool
from pykbroker.core.producer.produce_call import ProduceCall
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.producer.sender import Sender, SendSettings
from pykbroker.core.producer.transactions.calls import VERSION_1_MAX, CoordinatorCall
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    TransactionAnswer,
    Verified,
    VerifyPartitions,
)
from pykbroker.core.txn.state import PREPARED, TransactionState
from tests.unit.core.txn.harness import NAME, TransactionsHarness
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from wire.records.batch import Batch
from wire.records.compression import Codec
from wire.records.record import records

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
MEMORY_BYTES, BATCH_BYTES, TIMEOUT_MS = 100_000, 100, 1000
IN_FLIGHT_MAX = 5
SEEN_BY_PRODUCER = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorCode.INVALID_PRODUCER_EPOCH,
}
"""The error codes of a Produce response for those of the coordinator."""


class CopierMember(NamedTuple):
    """The consumer of the copied records."""

    group_id: str = "copiers"
    member_id: str = "member"
    epoch: int = 3
    instance_id: str | None = None


class InputOffset(NamedTuple):
    """An offset to commit."""

    offset: int
    epoch: int = -1
    metadata: str = ""


class TransactionalLog:
    """A log that checks batches as the broker does, and knows which values are committed."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.end_offset = 0
        self.open: dict[int, list[bytes]] = {}
        """The values of open transactions, by producer id."""
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []

    def append(
        self, data: bytes, coordinator: CoordinatorOfLogs, partition: TopicPartition
    ) -> PartitionProduceResponse:
        batch = Batch.read(data)
        fields = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        verification = self.producers.begin_verification(*fields, 0, from_zero=coordinator.adds)
        if verification is not None:
            code = coordinator.verify(batch.producer_id, batch.producer_epoch, partition)
            if code:
                self.producers.verifications.end(batch.producer_id, batch.producer_epoch)
                return PartitionProduceResponse(partition.partition, code, -1)
        try:
            original = self.producers.check(*fields, batch.last_offset_delta, True, verification)
        except ApiError as error:
            return PartitionProduceResponse(partition.partition, error.code, -1, log_start_offset=0)
        if original is not None:
            return PartitionProduceResponse(partition.partition, 0, original.base_offset)
        self.producers.remember(*fields, self.end_offset, batch.last_offset_delta, 0, transactional=True)
        values = [each.value or b"" for each in records(batch, 1 << 20)]
        self.open.setdefault(batch.producer_id, []).extend(values)
        self.end_offset += len(values)
        return PartitionProduceResponse(partition.partition, 0, self.end_offset - len(values))

    def end(self, marker: Marker) -> None:
        self.producers.check_marker(marker)
        self.producers.remember_marker(
            marker.producer_id,
            marker.producer_epoch,
            0,
            self.end_offset,
            0,
            not marker.commit,
            marker.transaction_version,
        )
        self.end_offset += 1
        decided = self.committed if marker.commit else self.aborted
        decided += self.open.pop(marker.producer_id, [])


class CoordinatorOfLogs:
    """The broker's transaction coordinator, which answers requests and writes markers into logs."""

    def __init__(self, version: int, logs: dict[TopicPartition, TransactionalLog]) -> None:
        self.harness, self.logs = TransactionsHarness(version), logs
        self.adds = version >= 2
        """Whether the requests of the producer add their partitions to the transaction."""

    def verify(self, producer_id: int, epoch: int, partition: TopicPartition) -> ErrorCode:
        """Return the error of a batch that is not part of the transaction."""
        added = frozenset({partition})
        request = (
            AddPartitions(NAME, producer_id, epoch, added, 2)
            if self.adds
            else VerifyPartitions(NAME, producer_id, epoch, added)
        )
        found = self.harness.ask(request, object)
        if isinstance(found, Verified):
            return ErrorCode.TRANSACTION_ABORTABLE if found.refused else ErrorCode.NONE
        assert isinstance(found, TransactionAnswer)
        return SEEN_BY_PRODUCER.get(found.error_code, found.error_code)

    def write_markers(self) -> None:
        """Complete the transaction that is decided."""
        known = self.harness.machine._transactions.get(NAME)
        if known is None or known.state not in PREPARED:
            return
        commit = known.state is TransactionState.PREPARE_COMMIT
        for partition in known.partitions:
            self.logs[partition].end(Marker(known.producer_id, known.epoch, commit, 0, 2 if known.bumps_epoch else 0))
        self.harness.complete()

    def answer(self, request: Request[Any], adds: bool) -> Any:
        """Return the answer to a request of the transaction protocol."""
        if isinstance(request, InitProducerIdRequest):
            found: TransactionAnswer = self.harness.ask(
                InitProducer(NAME, 60_000, request.producer_id, request.producer_epoch)
            )
            return InitProducerIdResponse(0, found.error_code, found.producer_id, found.epoch)
        if isinstance(request, AddPartitionsToTxnRequest):
            return self._add_partitions(request)
        assert isinstance(request, AddOffsetsToTxnRequest | EndTxnRequest | TxnOffsetCommitRequest)
        identity = (request.producer_id, request.producer_epoch)
        if isinstance(request, AddOffsetsToTxnRequest):
            added: TransactionAnswer = self.harness.ask(AddPartitions(NAME, *identity, frozenset({OFFSETS})))
            return AddOffsetsToTxnResponse(0, added.error_code)
        if isinstance(request, EndTxnRequest):
            ended: TransactionAnswer = self.harness.ask(
                EndTransaction(NAME, *identity, request.committed, 2 if adds else 0)
            )
            return EndTxnResponse(0, ended.error_code, ended.producer_id if adds else -1, ended.epoch if adds else -1)
        return offsets_answer(request, self.verify(*identity, OFFSETS))

    def _add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        added = frozenset(
            TopicPartition(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions
        )
        identity = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        return partitions_answer(request, self.harness.ask(AddPartitions(NAME, *identity, added)).error_code)


def partitions_answer(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    """Return an answer with this error code for each partition."""
    topics = [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def offsets_answer(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    """Return an answer with this error code for each partition."""
    topics = [
        TxnOffsetCommitResponseTopic(
            topic.name, [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions]
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(0, topics)


def refusal(request: Request[Any], code: ErrorCode) -> Any:
    """Return the answer to a request with this error code."""
    if isinstance(request, AddPartitionsToTxnRequest):
        return partitions_answer(request, code)
    if isinstance(request, TxnOffsetCommitRequest):
        return offsets_answer(request, code)
    if isinstance(request, InitProducerIdRequest):
        return InitProducerIdResponse(0, code)
    return EndTxnResponse(0, code) if isinstance(request, EndTxnRequest) else AddOffsetsToTxnResponse(0, code)


class TransactionalSetup:
    """A transactional producer whose requests and answers are moved by the test."""

    def __init__(self, version: int = 2) -> None:
        self.now_ms = 0.0
        self.logs = {ORDERS: TransactionalLog(), PAYMENTS: TransactionalLog(), OFFSETS: TransactionalLog()}
        self.coordinator = CoordinatorOfLogs(version, self.logs)
        self.manager = TransactionManager(NAME, 60_000)
        self.manager.update_features(1, {"transaction.version": version})
        sequences = self.manager.sequences
        batches = BatchSettings(batch_bytes=BATCH_BYTES, linger_ms=0, delivery_timeout_ms=TIMEOUT_MS)
        self.accumulator = RecordAccumulator(batches, BufferPool(MEMORY_BYTES), sequences)
        settings = SendSettings(retry_backoff_ms=0)
        self.sender = Sender(self.accumulator, settings, lambda low, high: (low + high) / 2, sequences)
        self.call: CoordinatorCall | None = None
        self.unhandled: deque[tuple[ProduceCall, dict[TopicPartition, bytes]]] = deque()
        """The Produce requests that the broker has not read yet."""
        self.unanswered: deque[tuple[ProduceCall, ProduceResponse]] = deque()
        """The answers that the producer has not read yet."""
        self.sent: list[tuple[TopicPartition, bytes]] = []
        """The batches that were sent."""
        self.late: deque[dict[TopicPartition, bytes]] = deque()
        """The Produce requests of lost connections that the broker may still handle."""

    def append(self, partition: TopicPartition, value: bytes) -> ProducerBatch:
        """Append a record to the open transaction."""
        self.manager.check_send()
        appended = self.accumulator.append(
            partition, SerializedRecord(partition.topic, value, timestamp=7), self.now_ms
        )
        assert appended is not None
        self.manager.add_partition(partition)
        return appended[0]

    def next_call(self) -> CoordinatorCall | None:
        """Send the next request of the transaction protocol, if one is due."""
        found = self.manager.requests.next_call(self.now_ms, has_incomplete=bool(self.accumulator.incomplete))
        if found is not None:
            self.call = found
        return found

    def take_call(self) -> CoordinatorCall:
        """Return the request in flight, whose outcome is reported next."""
        call, self.call = self.call, None
        assert call is not None
        return call

    def handle_call(self) -> None:
        """Let the coordinator answer the request in flight, and read the answer."""
        call = self.take_call()
        response = self.coordinator.answer(call.request(), call.version_max != VERSION_1_MAX)
        self.manager.requests.received(call, response, self.now_ms)

    def send(self) -> list[dict[TopicPartition, ProducerBatch]]:
        """Send the Produce requests that are due. Return their batches."""
        self.manager.sequences.advance()
        abort = self.manager.batch_abort
        if abort is not None:
            self.sender.abort(abort.error, unsent_only=abort.unsent_only)
        is_free = len(self.unhandled) + len(self.unanswered) < IN_FLIGHT_MAX
        sends = self.sender.sends(
            lambda _: Leader(1, 1), lambda topic: topic.encode().ljust(16), lambda _: is_free, self.now_ms
        )
        for call in sends.calls:
            self.unhandled.append((call, {each: batch.encode(Codec.NONE) for each, batch in call.batches.items()}))
            self.sent += self.unhandled[-1][1].items()
        return [call.batches for call in sends.calls]

    def handle_produce(self, code: ErrorCode | None = None, log_start_offset: int = 0) -> None:
        """Let the broker handle the oldest Produce request. With an error code, it writes nothing."""
        call, data = self.unhandled.popleft()
        topics = [
            TopicProduceResponse(
                topic_id=each.topic.encode().ljust(16),
                partition_responses=[
                    self.logs[each].append(batch, self.coordinator, each)
                    if code is None
                    else PartitionProduceResponse(each.partition, code, -1, log_start_offset=log_start_offset)
                ],
            )
            for each, batch in data.items()
        ]
        self.unanswered.append((call, ProduceResponse(topics)))

    def answer_produce(self) -> None:
        """Let the producer read the oldest answer to a Produce request."""
        call, answer = self.unanswered.popleft()
        self.sender.answered(call, answer, self.now_ms)

    def disconnect(self) -> None:
        """Lose the connections. The broker may still handle the requests that it has not read."""
        self.late += [data for _, data in self.unhandled]
        calls = [call for call, _ in [*self.unanswered, *self.unhandled]]
        self.unanswered.clear()
        self.unhandled.clear()
        for call in calls:
            self.sender.failed(call, ErrorCode.NETWORK_EXCEPTION, "gone", self.now_ms)

    def handle_late(self) -> None:
        """Let the broker handle the oldest request of a lost connection. Nobody reads its answer."""
        for partition, data in self.late.popleft().items():
            self.logs[partition].append(data, self.coordinator, partition)

    def finish(self) -> None:
        """Move everything that is left, without further faults."""
        for _ in range(1000):
            if not self.step():
                if self._is_idle and not self.accumulator.incomplete:
                    return
                self.now_ms = max(self.now_ms, self._next_ms)
        raise AssertionError("the producer makes no progress")

    def step(self) -> bool:
        """Move what there is, without faults. Return whether a request of the transaction protocol was answered."""
        self.coordinator.write_markers()
        self.send()
        self.next_call()
        while self.unhandled:
            self.handle_produce()
        while self.unanswered:
            self.answer_produce()
        if self.call is None:
            return False
        self.handle_call()
        return True

    @property
    def _next_ms(self) -> float:
        found = self.manager.requests.next_check_ms(has_incomplete=bool(self.accumulator.incomplete))
        return self.now_ms if found == math.inf else found

    @property
    def _is_idle(self) -> bool:
        return self.manager.requests.next_check_ms(has_incomplete=False) == math.inf
