"""The sender: retries, splits, expiry and order, with answers written by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.accumulator import BatchSettings, Leader, RecordAccumulator
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool
from pykbroker.core.producer.produce_call import ProduceCall
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.producer.sender import Sender, Sends, SendSettings
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": b"a" * 16, "b": b"b" * 16}
MEMORY_BYTES, BATCH_BYTES = 10_000, 200


class SenderSetup:
    """A sender, its accumulator, and the metadata that it sees."""

    def __init__(self, **settings: object) -> None:
        self.leaders = {A0: Leader(1, 5), A1: Leader(2, 5), B0: Leader(1, 5)}
        batches = BatchSettings(batch_bytes=BATCH_BYTES, linger_ms=0, delivery_timeout_ms=1000)
        self.accumulator = RecordAccumulator(batches, BufferPool(MEMORY_BYTES))
        self.sender = Sender(self.accumulator, SendSettings(**settings), lambda low, high: (low + high) / 2)  # type: ignore[arg-type]
        self.now_ms = 0.0
        self.busy: set[int] = set()

    def append(self, partition: TopicPartition, value: bytes = b"value") -> tuple[ProducerBatch, int]:
        """Append a record."""
        appended = self.accumulator.append(
            partition, SerializedRecord(partition.topic, value, timestamp=7), self.now_ms
        )
        assert appended is not None
        return appended

    def sends(self) -> Sends:
        """Return what is sent now."""
        return self.sender.sends(
            self.leaders.get, lambda topic: IDS.get(topic, NIL), lambda node: node not in self.busy, self.now_ms
        )

    def call(self) -> ProduceCall:
        """Return the only request that is sent now."""
        (call,) = self.sends().calls
        return call

    def answer(self, call: ProduceCall, *parts: PartitionProduceResponse, topic: str = "a") -> set[TopicPartition]:
        """Handle a response for one topic."""
        response = ProduceResponse([TopicProduceResponse(topic_id=IDS[topic], partition_responses=list(parts))])
        return self.sender.answered(call, response, self.now_ms)

    def refuse(self, call: ProduceCall, code: ErrorCode) -> set[TopicPartition]:
        """Handle a response that refuses partition 0 of topic a."""
        return self.answer(call, PartitionProduceResponse(0, code, -1))


def written(offset: int, index: int = 0) -> PartitionProduceResponse:
    """Return the answer to a batch that was written."""
    return PartitionProduceResponse(index, 0, offset)


def error(batch: ProducerBatch, index: int = 0) -> ApiError:
    """Return the error of a record."""
    with pytest.raises(ApiError) as caught:
        batch.result_of(index)
    return caught.value


def partitions(calls: Iterable[ProduceCall]) -> dict[int, list[TopicPartition]]:
    """Return the partitions of requests, by node."""
    return {call.node: list(call.batches) for call in calls}


class TestRequests:
    """Requests go to the leaders, by topic id where it is known."""

    def test_a_request_has_the_batches_of_a_leader(self) -> None:
        setup = SenderSetup()
        for partition in (A0, A1, B0):
            setup.append(partition)
        calls = setup.sends().calls
        assert partitions(calls) == {1: [A0, B0], 2: [A1]}
        request = calls[0].request(-1, 30_000, None, setup.accumulator.encode)
        assert [(topic.name, topic.topic_id, len(topic.partition_data)) for topic in request.topic_data] == [
            ("a", IDS["a"], 1),
            ("b", IDS["b"], 1),
        ]
        assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 30_000, None)
        assert calls[0].has_topic_ids

    def test_a_topic_without_an_id_is_sent_by_name(self) -> None:
        setup = SenderSetup()
        setup.leaders[TopicPartition("c", 0)] = Leader(1, 5)
        batch, _ = setup.append(TopicPartition("c", 0))
        call = setup.call()
        assert not call.has_topic_ids
        answer = TopicProduceResponse(name="c", partition_responses=[written(9)])
        setup.sender.answered(call, ProduceResponse([answer]), 0)
        assert batch.result_of(0).offset == 9

    def test_a_busy_broker_gets_no_request(self) -> None:
        setup = SenderSetup()
        setup.append(A0)
        setup.busy.add(1)
        assert not setup.sends().calls
        setup.busy.clear()
        assert partitions(setup.sends().calls) == {1: [A0]}

    def test_topics_without_a_leader_are_named(self) -> None:
        setup = SenderSetup()
        setup.append(A0)
        del setup.leaders[A0]
        sends = setup.sends()
        assert (list(sends.calls), list(sends.leaderless)) == ([], ["a"])

    def test_the_size_of_a_request_is_bounded(self) -> None:
        setup = SenderSetup(request_bytes_max=2 * BATCH_BYTES)
        for partition in (A0, B0):
            setup.append(partition, b"x" * 300)
        assert partitions(setup.sends().calls) == {1: [A0]}
        assert partitions(setup.sends().calls) == {1: [B0]}


class TestAnswers:
    """A batch succeeds, fails, is split or is sent again."""

    def test_a_written_record_has_its_offset(self) -> None:
        setup = SenderSetup()
        batch, index = setup.append(A0)
        assert setup.answer(setup.call(), written(40)) == set()
        assert batch.result_of(index).offset == 40
        assert setup.accumulator.pool.available_bytes == MEMORY_BYTES
        assert not setup.sender.has_in_flight

    def test_without_acks_the_offset_is_unknown(self) -> None:
        setup = SenderSetup(acks=0)
        batch, index = setup.append(A0)
        assert setup.sender.answered(setup.call(), None, 0) == set()
        assert batch.result_of(index).offset == -1

    def test_a_duplicate_counts_as_written_at_an_unknown_offset(self) -> None:
        setup = SenderSetup()
        batch, index = setup.append(A0)
        setup.refuse(setup.call(), ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        assert batch.result_of(index).offset == -1

    @pytest.mark.parametrize(
        ("code", "is_stale"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True), (ErrorCode.NOT_ENOUGH_REPLICAS, False)]
    )
    def test_a_retriable_error_is_retried_after_the_backoff(self, code: ErrorCode, is_stale: bool) -> None:
        setup = SenderSetup()
        batch, index = setup.append(A0)
        assert setup.refuse(setup.call(), code) == ({A0} if is_stale else set())
        assert setup.sends()[:3] == ([], 100, set())
        setup.now_ms = 100
        setup.refuse(setup.call(), code)
        assert setup.sends().next_check_ms == 300
        setup.now_ms = 300
        setup.answer(setup.call(), written(7))
        assert batch.result_of(index).offset == 7
        assert batch.attempts == 2

    def test_a_new_leader_ends_the_backoff(self) -> None:
        setup = SenderSetup()
        setup.append(A0)
        setup.refuse(setup.call(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        setup.leaders[A0] = Leader(2, 6)
        assert partitions(setup.sends().calls) == {2: [A0]}

    @pytest.mark.parametrize(("retries", "sent"), [(0, 1), (1, 2), (2, 3)])
    def test_the_number_of_retries_is_bounded(self, retries: int, sent: int) -> None:
        setup = SenderSetup(retries=retries, retry_backoff_ms=0)
        batch, _ = setup.append(A0)
        for _ in range(sent):
            assert not batch.is_settled
            setup.refuse(setup.call(), ErrorCode.NOT_ENOUGH_REPLICAS)
        assert error(batch).code is ErrorCode.NOT_ENOUGH_REPLICAS

    def test_a_fatal_error_fails_the_batch_with_the_brokers_text(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        setup.answer(
            setup.call(), PartitionProduceResponse(0, ErrorCode.INVALID_TIMESTAMP, error_message="it is too old")
        )
        assert str(error(batch)) == "a-0: 1 records were refused with INVALID_TIMESTAMP: it is too old"
        assert setup.accumulator.pool.available_bytes == MEMORY_BYTES

    def test_an_unknown_error_code_fails_the_batch(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        setup.answer(setup.call(), PartitionProduceResponse(0, 9999))
        assert error(batch).code is ErrorCode.UNKNOWN_SERVER_ERROR

    def test_a_batch_without_an_answer_is_sent_again(self) -> None:
        setup = SenderSetup()
        setup.append(A0)
        setup.append(B0)
        assert setup.answer(setup.call(), written(1)) == {B0}
        setup.now_ms = 100
        assert partitions(setup.sends().calls) == {1: [B0]}

    def test_a_lost_connection_is_retried(self) -> None:
        setup = SenderSetup()
        setup.append(A0)
        assert setup.sender.failed(setup.call(), ErrorCode.NETWORK_EXCEPTION, "gone", 0) == {A0}
        setup.now_ms = 100
        assert partitions(setup.sends().calls) == {1: [A0]}

    def test_records_with_errors_of_their_own_are_told_apart(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        setup.append(A0)
        setup.append(A0)
        answer = PartitionProduceResponse(0, ErrorCode.INVALID_RECORD, error_message="batch")
        answer.record_errors = [BatchIndexAndErrorMessage(1, "no key"), BatchIndexAndErrorMessage(2, None)]
        setup.answer(setup.call(), answer)
        assert [error(batch, index).message for index in range(3)] == [
            "the record was not written, because its batch has invalid records",
            "no key",
            "batch",
        ]

    def test_a_single_record_error_has_the_code_of_the_partition(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        answer = PartitionProduceResponse(0, ErrorCode.INVALID_TIMESTAMP)
        answer.record_errors = [BatchIndexAndErrorMessage(0, "too old")]
        setup.answer(setup.call(), answer)
        assert error(batch).code is ErrorCode.INVALID_TIMESTAMP

    def test_a_batch_that_is_too_large_is_split(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        setup.append(A0)
        call = setup.call()
        call.request(-1, 0, None, setup.accumulator.encode)
        setup.refuse(call, ErrorCode.MESSAGE_TOO_LARGE)
        for offset in (10, 20):
            setup.answer(setup.call(), written(offset))
        assert [batch.result_of(index).offset for index in range(2)] == [10, 20]
        assert setup.accumulator.pool.available_bytes == MEMORY_BYTES

    def test_a_single_record_that_is_too_large_fails(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        setup.refuse(setup.call(), ErrorCode.MESSAGE_TOO_LARGE)
        assert error(batch).code is ErrorCode.MESSAGE_TOO_LARGE


class TestOrder:
    """Muting keeps the order of records without idempotence."""

    @pytest.mark.parametrize("mutes", [True, False])
    def test_a_partition_in_flight_is_muted(self, mutes: bool) -> None:
        setup = SenderSetup(keeps_order_by_muting=mutes)
        setup.append(A0)
        call = setup.call()
        setup.append(A0)
        assert bool(setup.sends().calls) is not mutes
        setup.answer(call, written(1))
        assert bool(setup.sends().calls) is mutes

    def test_a_retry_precedes_later_records(self) -> None:
        setup = SenderSetup(keeps_order_by_muting=True)
        first, _ = setup.append(A0)
        call = setup.call()
        setup.append(A0)
        setup.refuse(call, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert not setup.sends().calls
        setup.now_ms = 100
        assert list(setup.call().batches.values()) == [first]


class TestExpiry:
    """No record waits longer than delivery.timeout.ms."""

    def test_a_queued_batch_expires(self) -> None:
        setup = SenderSetup()
        del setup.leaders[A0]
        batch, _ = setup.append(A0)
        assert setup.sends().next_check_ms == 1000
        setup.now_ms = 1000
        assert setup.sends().next_check_ms == math.inf
        assert error(batch).code is ErrorCode.REQUEST_TIMED_OUT
        assert "1 records for a-0 expired: 1000 ms have passed" in str(error(batch))
        assert setup.accumulator.pool.available_bytes == MEMORY_BYTES

    def test_a_batch_in_flight_expires_and_its_memory_returns_with_the_answer(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        call = setup.call()
        assert setup.sends().next_check_ms == 1000
        setup.now_ms = 1000
        assert setup.sends().next_check_ms == math.inf
        assert error(batch).code is ErrorCode.REQUEST_TIMED_OUT
        assert setup.accumulator.pool.available_bytes < MEMORY_BYTES
        setup.answer(call, written(1))
        assert error(batch).code is ErrorCode.REQUEST_TIMED_OUT
        assert setup.accumulator.pool.available_bytes == MEMORY_BYTES

    def test_an_error_after_the_delivery_timeout_is_final(self) -> None:
        setup = SenderSetup()
        batch, _ = setup.append(A0)
        call = setup.call()
        setup.now_ms = 1000
        setup.refuse(call, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert error(batch).code is ErrorCode.NOT_ENOUGH_REPLICAS

    def test_an_abort_fails_batches_in_flight_as_well(self) -> None:
        setup = SenderSetup()
        sent, _ = setup.append(A0)
        call = setup.call()
        queued, _ = setup.append(A0)
        setup.sender.abort(ApiError(ErrorCode.INVALID_TXN_STATE), unsent_only=False)
        assert error(sent).code is error(queued).code is ErrorCode.INVALID_TXN_STATE
        setup.answer(call, written(1))
        assert setup.accumulator.pool.available_bytes == MEMORY_BYTES
        assert not setup.sends().calls
