"""A sender with sequence numbers, and a log that checks them as the broker does, for tests of idempotence."""

from __future__ import annotations

from collections import deque

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Producers
from pykbroker.core.producer.accumulator import BatchSettings, Leader, RecordAccumulator
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.produce_call import ProduceCall
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.producer.sender import Sender, SendSettings
from pykbroker.core.producer.sequences import ProducerIdentity, Sequences
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from wire.records.batch import Batch
from wire.records.compression import Codec
from wire.records.record import records

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)
MEMORY_BYTES, IN_FLIGHT_MAX = 100_000, 5


class CheckedLog:
    """A log that writes batches as the broker does: in sequence, without duplicates, and fenced by epoch."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.values: list[bytes] = []

    def forget_producers(self) -> None:
        """Lose all producer state, as when retention deletes a producer's records."""
        self.producers = Producers()

    def append(self, partition: int, data: bytes) -> PartitionProduceResponse:
        """Write a batch, and return the answer."""
        batch = Batch.read(data)
        fields = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        try:
            original = self.producers.check(*fields, batch.last_offset_delta, transactional=False)
        except ApiError as error:
            return PartitionProduceResponse(partition, error.code, -1, log_start_offset=0)
        if original is not None:
            return PartitionProduceResponse(partition, 0, original.base_offset)
        offset = len(self.values)
        self.values += [each.value or b"" for each in records(batch, 1 << 20)]
        self.producers.remember(*fields, offset, batch.last_offset_delta, 0, transactional=False)
        return PartitionProduceResponse(partition, 0, offset)


class IdempotentSetup:
    """A producer with one connection to a broker, whose requests and answers are moved by the test."""

    def __init__(
        self, *, delivery_timeout_ms: float = 1e9, first_epoch: int = 0, retries: int = SendSettings().retries
    ) -> None:
        self.now_ms = 0.0
        self.sequences = Sequences()
        batches = BatchSettings(batch_bytes=100, linger_ms=0, delivery_timeout_ms=delivery_timeout_ms)
        self.accumulator = RecordAccumulator(batches, BufferPool(MEMORY_BYTES), self.sequences)
        settings = SendSettings(retries=retries, retry_backoff_ms=0)
        self.sender = Sender(self.accumulator, settings, lambda low, high: (low + high) / 2, self.sequences)
        self.logs = {A: CheckedLog(), B: CheckedLog()}
        self.unhandled: deque[tuple[ProduceCall, dict[TopicPartition, bytes]]] = deque()
        """The requests that the broker has not read yet."""
        self.unanswered: deque[tuple[ProduceCall, ProduceResponse]] = deque()
        """The answers that the producer has not read yet."""
        self.sent: dict[TopicPartition, list[tuple[bytes, ProducerBatch, int]]] = {A: [], B: []}
        self._next_id, self.first_epoch = 7, first_epoch

    def append(self, partition: TopicPartition, size: int = 1) -> None:
        """Append a record whose value is its number in the partition."""
        value = b"%06d" % len(self.sent[partition]) + b"x" * size
        appended = self.accumulator.append(
            partition, SerializedRecord(partition.topic, value, timestamp=7), self.now_ms
        )
        if appended is not None:
            self.sent[partition].append((value, *appended))

    def append_rows(self, partition: TopicPartition, count: int) -> None:
        """Append columns of as many records, whose values are their numbers, to one batch if it is large enough."""
        first = len(self.sent[partition])
        values: list[bytes | None] = [b"%06d" % number for number in range(first, first + count)]
        columns, start = Columns(values, None, None, 7), 0
        while start < count:
            wanted = columns.batch_bytes_max(start, 1)
            appended = self.accumulator.append_columns(partition, columns, start, self.now_ms, None, wanted)
            if appended is None:
                return
            batch, index, end = appended
            self.sent[partition] += [(b"%06d" % (first + row), batch, index + row - start) for row in range(start, end)]
            start = end

    def send(self) -> None:
        """Send the requests that are due."""
        self.sequences.advance()
        if self.sequences.needs_identity:
            self.sequences.set_identity(ProducerIdentity(self._next_id, self.first_epoch))
            self._next_id += 1
        is_free = len(self.unhandled) + len(self.unanswered) < IN_FLIGHT_MAX
        sends = self.sender.sends(lambda _: Leader(1, 1), lambda _: b"i" * 16, lambda _: is_free, self.now_ms)
        for call in sends.calls:
            data = {name: batch.encode(Codec.NONE) for name, batch in call.batches.items()}
            self.unhandled.append((call, data))

    def handle(self, refusal: ErrorCode | None = None, *, after_append: bool = False) -> None:
        """Let the broker handle the oldest request. With a refusal, it writes nothing, or refuses after the append."""
        call, data = self.unhandled.popleft()
        parts = []
        for name, batch in data.items():
            written = self.logs[name].append(name.partition, batch) if refusal is None or after_append else None
            is_refused = refusal is not None and (written is None or not written.error_code)
            refused = PartitionProduceResponse(name.partition, refusal or 0, -1, log_start_offset=0)
            parts.append(refused if is_refused or written is None else written)
        answer = ProduceResponse([TopicProduceResponse(topic_id=b"i" * 16, partition_responses=parts)])
        self.unanswered.append((call, answer))

    def answer(self) -> None:
        """Let the producer read the oldest answer."""
        call, answer = self.unanswered.popleft()
        self.sender.answered(call, answer, self.now_ms)

    def disconnect(self) -> None:
        """Lose the connection, with all requests and answers on it."""
        calls = [call for call, _ in [*self.unanswered, *self.unhandled]]
        self.unanswered.clear()
        self.unhandled.clear()
        for call in calls:
            self.sender.failed(call, ErrorCode.NETWORK_EXCEPTION, "gone", self.now_ms)

    def lose_answers(self) -> None:
        """Handle all requests as the broker, and lose the connection before the producer reads an answer."""
        while self.unhandled:
            self.handle()
        self.disconnect()

    def refuse_written(self) -> None:
        """Handle all requests as a broker that refuses each batch after its append."""
        while self.unhandled:
            self.handle(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, after_append=True)
        while self.unanswered:
            self.answer()

    def finish(self) -> None:
        """Send everything that is left, without further faults."""
        for _ in range(10_000):
            self.send()
            if not self.unhandled and not self.unanswered and not self.accumulator.incomplete.batches():
                return
            while self.unhandled:
                self.handle()
            while self.unanswered:
                self.answer()
        raise AssertionError("the producer makes no progress")

    def check(self) -> None:
        """Check that acknowledged records are written once at their offsets and in order, and no record twice."""
        for partition, sent in self.sent.items():
            values = self.logs[partition].values
            assert len(set(values)) == len(values), "a record was written twice"
            acknowledged = []
            for value, batch, index in sent:
                try:
                    acknowledged.append((value, batch.result_of(index).offset))
                except ApiError:
                    continue
            assert [value for value, offset in acknowledged if offset >= 0 and values[offset] != value] == []
            assert {value for value, _ in acknowledged} <= set(values), "an acknowledged record is lost"
        assert self.accumulator.pool.available_bytes == MEMORY_BYTES

    def check_order(self) -> None:
        """Check that each log has its records in the order in which they were appended."""
        for log in self.logs.values():
            assert log.values == sorted(log.values), "records were reordered"
