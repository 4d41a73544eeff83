"""The sender: which Produce requests are sent now, and what follows from their answers.

1. A batch is sent again after a retriable error, while `retries` and `delivery.timeout.ms` permit. It keeps its
   sequence number, so the broker writes it once.
2. With one request in flight at a time and no idempotence, the partitions of a request are muted until its answer. This
   keeps the order of their records.
3. A batch whose time is over fails at once, even if it is in flight. Its later answer is ignored, but its memory is
   returned only then.
4. Metadata is refreshed after an error that shows it to be stale, and for topics without a leader.

The owner calls all methods under its lock, except `ProduceCall.request`, which encodes the batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from pykbroker.core.backoff import Uniform, delay_ms
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.accumulator import LeaderOf, RecordAccumulator, Sequencer
from pykbroker.core.producer.batch import BatchOutcome, ProducerBatch
from pykbroker.core.producer.counters import ProducerCounters
from pykbroker.core.producer.errors import DeliveryExpired
from pykbroker.core.producer.produce_call import ProduceCall, TopicIdOf
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.produce import PartitionProduceResponse, ProduceResponse
from wire.sentinels import ACKS_ALL, NO_OFFSET

PERHAPS_WRITTEN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The errors of a batch that the leader may have written nevertheless.

A leader that loses its leadership, or its disk, answers with that error also to batches that it has appended.
"""
OTHER_RECORD = "the record was not written, because its batch has invalid records"


class SendSettings(msgspec.Struct, frozen=True):
    """The settings of sending, with Kafka's defaults. Sizes are in bytes, times in ms."""

    acks: int = ACKS_ALL
    request_bytes_max: int = 1 << 20
    retries: int = 0x7FFF_FFFF
    retry_backoff_ms: float = 100
    retry_backoff_ms_max: float = 1000
    keeps_order_by_muting: bool = False


class DeliverySequencer(Sequencer, Protocol):
    """The part of an idempotent producer that learns the outcome of batches."""

    def answered(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """Note that the request of a batch has ended with this code, that of an answer or of a failed request."""

    def may_retry(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> bool:
        """Whether the batch may be sent again after this error. It may get another sequence number."""

    def succeeded(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        """Note that the batch was written."""

    def failed(self, batch: ProducerBatch, error: ApiError, *, adjust: bool) -> None:
        """Note that the batch failed for good. With `adjust`, it was not written, and later ones are numbered anew."""

    def left(self, batch: ProducerBatch) -> None:
        """Note that nobody waits for a batch any more that was sent before and may have been written."""


class Sends(NamedTuple):
    """The requests to send now, the time of the next check in ms, and the topics without a leader.

    `has_more` is true if further batches may be due after these requests. `busy` are the brokers for which batches are
    due, but which can take no request now.
    """

    calls: Sequence[ProduceCall]
    next_check_ms: float
    leaderless: Collection[str] = ()
    has_more: bool = False
    busy: Collection[int] = ()


class Sender:
    """The state of requests in flight. `uniform` returns a random number between its arguments."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        settings: SendSettings,
        uniform: Uniform,
        sequencer: DeliverySequencer | None = None,
    ) -> None:
        self.accumulator, self.settings, self._uniform, self._sequencer = accumulator, settings, uniform, sequencer
        self.counters = ProducerCounters()
        self._in_flight: dict[ProducerBatch, None] = {}

    @property
    def has_in_flight(self) -> bool:
        """Whether a batch waits for its answer."""
        return bool(self._in_flight)

    def sends(
        self, leader_of: LeaderOf, topic_id_of: TopicIdOf, is_free: Callable[[int], bool], now_ms: float
    ) -> Sends:
        """Return the requests that are due, for brokers that `is_free` returns true for. Fail expired batches."""
        accumulator = self.accumulator
        expiry_ms = min(accumulator.next_expiry_ms(), self._next_expiry_ms())
        if expiry_ms <= now_ms:
            self._expire(now_ms)
            expiry_ms = min(accumulator.next_expiry_ms(), self._next_expiry_ms())
        due = accumulator.due(leader_of, now_ms)
        calls, busy, has_more = [], [], False
        for node, partitions in due.by_node.items():
            if not is_free(node):
                busy.append(node)
                continue
            batches = accumulator.drain(partitions, leader_of, self.settings.request_bytes_max)
            if batches:
                calls.append(self._call(node, batches, topic_id_of))
                has_more = has_more or any(map(accumulator.waiting, partitions))
        return Sends(calls, min(due.next_check_ms, expiry_ms), due.leaderless, has_more, busy)

    def _call(self, node: int, batches: list[ProducerBatch], topic_id_of: TopicIdOf) -> ProduceCall:
        self.counters.requests += 1
        self._in_flight.update(dict.fromkeys(batches))
        if self.settings.keeps_order_by_muting:
            self.accumulator.muted.update(batch.partition for batch in batches)
        return ProduceCall(node, batches, topic_id_of)

    # ---- answers

    def answered(self, call: ProduceCall, response: ProduceResponse | None, now_ms: float) -> set[TopicPartition]:
        """Handle the response to a request, or None with acks=0. Return the partitions with stale metadata."""
        if response is None:
            for batch in call.batches.values():
                self._complete(batch, PartitionProduceResponse(base_offset=-1), now_ms)
            return set()
        stale = set()
        for batch, answer in call.answers(response):
            self._complete(batch, answer, now_ms)
            if error_code(answer.error_code).invalid_metadata:
                stale.add(batch.partition)
        return stale

    def failed(self, call: ProduceCall, code: ErrorCode, message: str, now_ms: float) -> set[TopicPartition]:
        """Handle a request without a response. Return the partitions whose metadata may be stale."""
        for batch in call.batches.values():
            self._complete(batch, PartitionProduceResponse(error_code=code, error_message=message), now_ms)
        return set(call.batches)

    def _complete(self, batch: ProducerBatch, answer: PartitionProduceResponse, now_ms: float) -> None:
        self._in_flight.pop(batch, None)
        self.accumulator.muted.discard(batch.partition)
        code = error_code(answer.error_code)
        batch.may_be_written = batch.may_be_written or code in PERHAPS_WRITTEN
        if self._sequencer is not None:
            self._sequencer.answered(batch, code)
        if batch.outcome is not None:
            self._complete_late(batch, answer, code)
        # A duplicate is in the log, though the broker no longer remembers at which offset.
        elif code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._succeed(batch, answer, code)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and self._may_split(batch):
            self.counters.batch_split += 1
            self.accumulator.split(batch)
        elif self._may_retry(batch, answer, code, now_ms):
            settings = self.settings
            delay = delay_ms(batch.attempts, settings.retry_backoff_ms, settings.retry_backoff_ms_max, self._uniform)
            self.counters.record_retry += batch.count
            self.accumulator.requeue(batch, now_ms + delay)
        else:
            self._fail(batch, error_of(batch, answer), record_errors(answer))

    def _succeed(self, batch: ProducerBatch, answer: PartitionProduceResponse, code: ErrorCode) -> None:
        if self._sequencer is not None:
            self._sequencer.succeeded(batch, answer)
        self.counters.record_send += batch.count
        self.counters.bytes_sent += batch.encoded_bytes
        offset = NO_OFFSET if code else answer.base_offset
        self.accumulator.incomplete.settle(batch, BatchOutcome(offset, answer.log_append_time_ms))

    def _may_split(self, batch: ProducerBatch) -> bool:
        """Whether the records can be sent in several batches, which would repeat records that are already written."""
        return batch.count > 1 and not (batch.may_be_written and self._sequencer is not None)

    def _complete_late(self, batch: ProducerBatch, answer: PartitionProduceResponse, code: ErrorCode) -> None:
        """Learn from the answer to a batch that expired or was aborted in flight, and return its memory."""
        if code is ErrorCode.NONE and self._sequencer is not None:
            self._sequencer.succeeded(batch, answer)
        self.accumulator.incomplete.release(batch)

    def _may_retry(
        self, batch: ProducerBatch, answer: PartitionProduceResponse, code: ErrorCode, now_ms: float
    ) -> bool:
        if batch.attempts >= self.settings.retries or self._expiry_ms(batch) <= now_ms:
            return False
        return code.retriable if self._sequencer is None else self._sequencer.may_retry(batch, answer)

    def _fail(self, batch: ProducerBatch, error: ApiError, record_errors: dict[int, Exception]) -> None:
        self.counters.record_error += batch.count
        outcome = BatchOutcome(error=ApiError(ErrorCode.INVALID_RECORD, OTHER_RECORD) if record_errors else error)
        self.accumulator.incomplete.settle(batch, outcome._replace(record_errors=record_errors))
        if self._sequencer is not None:
            self._sequencer.failed(batch, error, adjust=not batch.may_be_written)
            if batch.may_be_written:
                self._leave(batch)

    # ---- expiry and abort

    def _expiry_ms(self, batch: ProducerBatch) -> float:
        return batch.created_ms + self.accumulator.settings.delivery_timeout_ms

    def _next_expiry_ms(self) -> float:
        return min((self._expiry_ms(batch) for batch in self._in_flight if batch.outcome is None), default=math.inf)

    def _expire(self, now_ms: float) -> None:
        for batch in self.accumulator.expired(now_ms):
            self.accumulator.incomplete.settle(batch, BatchOutcome(error=self._expire_one(batch, now_ms)))
        for batch in [each for each in self._in_flight if each.outcome is None and self._expiry_ms(each) <= now_ms]:
            self.accumulator.incomplete.settle_in_flight(batch, BatchOutcome(error=self._expire_one(batch, now_ms)))

    def _expire_one(self, batch: ProducerBatch, now_ms: float) -> ApiError:
        self.counters.record_error += batch.count
        error = DeliveryExpired(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{batch.count} records for {batch.partition} expired: {now_ms - batch.created_ms:.0f} ms have passed "
            "since their batch was opened, and no broker has acknowledged it (delivery.timeout.ms)",
        )
        if self._sequencer is not None:
            self._sequencer.failed(batch, error, adjust=False)
            self._leave(batch)
        return error

    def abort(self, error: Exception, *, unsent_only: bool) -> None:
        """Fail the queued batches that were never sent, or all batches, also in flight."""
        for batch in self.accumulator.remove(sequenced=not unsent_only):
            self.accumulator.incomplete.settle(batch, BatchOutcome(error=error))
            self._leave(batch)
        if not unsent_only:
            for batch in self._in_flight:
                self.accumulator.incomplete.settle_in_flight(batch, BatchOutcome(error=error))
                self._leave(batch)

    def _leave(self, batch: ProducerBatch) -> None:
        """Let the sequencer resolve a batch that may have been written. Later batches would wait for it otherwise."""
        if self._sequencer is not None and batch.state.base_sequence >= 0:
            self._sequencer.left(batch)


def error_of(batch: ProducerBatch, answer: PartitionProduceResponse) -> ApiError:
    """Return the error of a batch, with the broker's text."""
    code = error_code(answer.error_code)
    reason = f": {answer.error_message}" if answer.error_message else ""
    return ApiError(code, f"{batch.partition}: {batch.count} records were refused with {code.name}{reason}")


def record_errors(answer: PartitionProduceResponse) -> dict[int, Exception]:
    """Return the errors of single records, by index (KIP-467).

    The code of the partition is that of a record only if the record is the only one with an error.
    """
    code = error_code(answer.error_code) if len(answer.record_errors) == 1 else ErrorCode.INVALID_RECORD
    return {
        each.batch_index: ApiError(code, each.batch_index_error_message or answer.error_message or code.name)
        for each in answer.record_errors
    }
