"""The accumulator: which batches are due, in which order they leave, and that all memory comes back."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykbroker.core.producer.accumulator import BatchSettings, Leader, RecordAccumulator, precedes
from pykbroker.core.producer.batch import BatchOutcome, BatchState, ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool, MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import ProducerClosed
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import Batch
from wire.records.compression import Codec
from wire.records.record import records

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A0: Leader(1, 5), A1: Leader(2, 5), B0: Leader(1, 5)}
BATCH_BYTES, LARGE_BYTES, MEMORY_BYTES, REQUEST_BYTES = 200, 700, 1000, 10_000
VALUE = b"x" * 50


def accumulator(memory: int = MEMORY_BYTES, codec: Codec = Codec.NONE) -> RecordAccumulator:
    """Return an empty accumulator with batches of 200 bytes."""
    batches = BatchSettings(batch_bytes=BATCH_BYTES, linger_ms=5, delivery_timeout_ms=100, codec=codec)
    return RecordAccumulator(batches, BufferPool(memory))


def append(to: RecordAccumulator, partition: TopicPartition, now_ms: float = 0, value: bytes = VALUE) -> ProducerBatch:
    """Append a record and return its batch."""
    appended = to.append(partition, SerializedRecord(partition.topic, value, timestamp=7), now_ms)
    assert appended is not None
    return appended[0]


def drain(of: RecordAccumulator, *partitions: TopicPartition, bytes_max: int = REQUEST_BYTES) -> list[ProducerBatch]:
    """Return the drained batches of these partitions."""
    return of.drain(partitions or LEADERS, LEADERS.get, bytes_max)


class TestAppend:
    """Records go to the open batch of their partition, or to a new one with memory of its own."""

    def test_records_share_a_batch_until_it_is_full(self) -> None:
        records = accumulator()
        batches = [append(records, A0) for _ in range(5)]
        assert batches[0] is batches[1]
        assert batches[1] is not batches[2]
        assert batches[0].is_closed
        assert not batches[4].is_closed
        assert records.pool.available_bytes == MEMORY_BYTES - 3 * BATCH_BYTES

    def test_times_that_are_too_far_apart_for_a_batch_go_to_several(self) -> None:
        times = [-1, (1 << 63) - 1, -(1 << 63), 0]
        by_rows, by_columns = accumulator(), accumulator()
        batches: list[list[ProducerBatch]] = [[], []]
        for time in times:
            appended = by_rows.append(A0, SerializedRecord("a", b"v", timestamp=time), 0)
            assert appended is not None
            batches[0].append(appended[0])
        columns, start = Columns([b"v"] * 4, None, None, times), 0
        while start < len(columns):
            taken = by_columns.append_columns(A0, columns, start, 0)
            assert taken is not None
            batches[1].append(taken[0])
            start = taken[2]
        for each in batches:
            content = [Batch.read(batch.encode(Codec.NONE)) for batch in dict.fromkeys(each)]
            assert [record.timestamp for batch in content for record in records(batch, 1 << 20)] == times

    def test_a_partition_has_batches_of_its_own(self) -> None:
        records = accumulator()
        assert append(records, A0) is not append(records, A1)

    def test_a_large_record_takes_as_much_memory_as_it_needs(self) -> None:
        records = accumulator()
        batch = append(records, A0, value=b"x" * 500)
        assert batch.reserved > 500
        assert records.pool.available_bytes == MEMORY_BYTES - batch.reserved

    def test_without_memory_the_caller_waits_and_passes_what_it_got(self) -> None:
        records = accumulator(memory=BATCH_BYTES)
        first = append(records, A0)
        assert records.append(A1, SerializedRecord(A1.topic, VALUE, timestamp=7), 0) is None
        ticket = records.pool.stand_in_line(MemoryTicket(records.memory_for(100), int))
        drain(records)
        records.incomplete.settle(first, BatchOutcome())
        assert ticket.is_served
        appended = records.append(A1, SerializedRecord(A1.topic, VALUE, timestamp=7), 0, ticket)
        assert appended is not None
        assert appended[0].reserved == BATCH_BYTES

    def test_granted_memory_goes_back_if_another_caller_opened_a_batch(self) -> None:
        records = accumulator()
        ticket = records.pool.stand_in_line(MemoryTicket(BATCH_BYTES, int))
        first = append(records, A0)
        appended = records.append(A0, SerializedRecord(A0.topic, VALUE, timestamp=7), 0, ticket)
        assert appended == (first, 1)
        records.pool.leave_line(ticket)
        assert records.pool.available_bytes == MEMORY_BYTES - BATCH_BYTES

    def test_memory_that_was_granted_before_the_pool_was_closed_goes_back(self) -> None:
        records = accumulator()
        ticket = records.pool.stand_in_line(MemoryTicket(BATCH_BYTES, int))
        records.pool.close()
        with pytest.raises(ProducerClosed):
            records.append(A0, SerializedRecord(A0.topic, VALUE, timestamp=7), 0, ticket)
        records.pool.leave_line(ticket)
        assert records.pool.available_bytes == MEMORY_BYTES

    def test_a_compressible_batch_grows_beyond_its_first_memory(self) -> None:
        records = accumulator(memory=10_000, codec=Codec.GZIP)
        for _ in range(300):
            records.ratios.observe("a", 0.3)
        batch = append(records, A0)
        while append(records, A0) is batch:
            assert batch.size <= batch.reserved
        assert 2 * BATCH_BYTES < batch.size < batch.bytes_max <= 4 * BATCH_BYTES
        assert batch.reserved % BATCH_BYTES == 0

    def test_columns_fill_one_batch_after_the_other(self) -> None:
        records = accumulator(memory=600)
        columns = Columns([b"%d" % row * 10 for row in range(10)] * 5, None, None, 7)
        end, batches = 0, []
        while (appended := records.append_columns(A0, columns, end, 0)) is not None:
            batch, index, next_row = appended
            assert index == 0
            assert batch.count == next_row - end
            batches.append(batch)
            end = next_row
        assert len(batches) == 3
        assert 0 < end < 50
        granted = records.pool
        for batch in drain(records) + drain(records) + drain(records):
            records.incomplete.settle(batch, BatchOutcome())
        assert granted.available_bytes == 600


class TestDue:
    """A batch is due when it is full or old, or when somebody waits."""

    def test_a_batch_is_due_after_linger(self) -> None:
        records = accumulator()
        append(records, A0, now_ms=10)
        assert records.due(LEADERS.get, 14) == ({}, 15, set())
        assert records.due(LEADERS.get, 15) == ({1: [A0]}, math.inf, set())

    @pytest.mark.parametrize("reason", ["full", "closing", "flush", "memory"])
    def test_a_batch_is_due_at_once(self, reason: str) -> None:
        records = accumulator()
        append(records, A0)
        assert not records.due(LEADERS.get, 0).by_node
        if reason == "full":
            append(records, A0)
            append(records, A0)
        elif reason == "closing":
            records.is_closing = True
        elif reason == "flush":
            assert records.flush() == records.incomplete.batches()
        else:
            records.pool.stand_in_line(MemoryTicket(MEMORY_BYTES, int))
        assert records.due(LEADERS.get, 0).by_node == {1: [A0]}

    def test_partitions_are_grouped_by_their_leader(self) -> None:
        records = accumulator()
        for partition in (A0, A1, B0):
            append(records, partition)
        assert records.due(LEADERS.get, 5).by_node == {1: [A0, B0], 2: [A1]}

    def test_topics_without_a_leader_are_named(self) -> None:
        records = accumulator()
        append(records, A0)
        append(records, A1)
        due = records.due({A0: Leader(1, 5)}.get, 5)
        assert due == ({1: [A0]}, math.inf, {"a"})

    def test_a_muted_partition_is_never_due(self) -> None:
        records = accumulator()
        append(records, A0)
        records.muted.add(A0)
        assert not records.due(LEADERS.get, 100).by_node
        assert drain(records) == []

    def test_a_retry_waits_for_its_backoff_or_for_a_new_leader(self) -> None:
        records = accumulator()
        append(records, A0)
        (batch,) = drain(records)
        records.requeue(batch, retry_at_ms=50)
        append(records, A0)
        assert records.due(LEADERS.get, 49) == ({}, 50, set())
        assert records.due(LEADERS.get, 50).by_node == {1: [A0]}
        assert records.due({A0: Leader(2, 6)}.get, 49).by_node == {2: [A0]}


class TestDrain:
    """A request takes one batch of each partition, within its size, and no partition starves."""

    def test_a_request_has_one_batch_of_each_partition(self) -> None:
        records = accumulator()
        first = next(append(records, A0) for _ in range(3))
        second = append(records, B0)
        assert drain(records, A0, B0) == [first, second]
        assert first.is_closed
        assert second.is_closed

    def test_a_request_is_bounded_but_never_empty(self) -> None:
        records = accumulator()
        batches = [append(records, partition) for partition in (A0, A1, B0)]
        assert drain(records, bytes_max=1) == batches[:1]
        assert drain(records, bytes_max=batches[1].size + batches[2].size) == batches[1:]

    def test_a_drained_partition_goes_to_the_back(self) -> None:
        records = accumulator()
        for partition in (A0, A0, A0, B0):
            append(records, partition)
        drain(records, *records.due(LEADERS.get, 5).by_node[1], bytes_max=1)
        assert records.due(LEADERS.get, 5).by_node == {1: [B0, A0]}

    def test_retries_keep_the_order_of_their_sequence_numbers(self) -> None:
        records, sent = accumulator(), []
        for number in range(4):
            append(records, A0)
            (batch,) = drain(records)
            batch.set_state(BatchState(1, 0, (0x7FFF_FFFE + number) & 0x7FFF_FFFF))
            sent.append(batch)
        append(records, A0)
        for batch in (sent[2], sent[0], sent[3], sent[1]):
            records.requeue(batch, 0)
        assert [drain(records)[0] for _ in range(4)] == sent
        assert drain(records)[0] not in sent

    def test_without_sequence_numbers_a_retry_goes_to_the_front(self) -> None:
        records = accumulator()
        append(records, A0)
        (batch,) = drain(records)
        append(records, A0)
        records.requeue(batch, 0)
        assert drain(records) == [batch]


class TestEnds:
    """Expired and aborted batches leave their queue, and split batches are sent in parts."""

    def test_a_queued_batch_expires_after_the_delivery_timeout(self) -> None:
        records = accumulator()
        first, second = append(records, A0, now_ms=0), append(records, A1, now_ms=1)
        assert records.next_expiry_ms() == 100
        assert records.expired(99) == []
        assert records.expired(100) == [first]
        assert records.expired(101) == [second]
        assert not records.has_undrained
        assert records.next_expiry_ms() == math.inf

    def test_an_abort_removes_only_batches_that_were_never_sent(self) -> None:
        records = accumulator()
        append(records, A0)
        (sent,) = drain(records)
        sent.set_state(BatchState(1, 0, 0))
        records.requeue(sent, 0)
        unsent = append(records, A0)
        assert records.remove(sequenced=False) == [unsent]
        assert records.remove(sequenced=True) == [sent]

    def test_the_parts_of_a_split_batch_replace_it(self) -> None:
        records = accumulator(memory=2000)
        for _ in range(6):
            append(records, A0, value=b"x" * 10)
        (batch,) = drain(records)
        content = records.encode(batch)
        parts = records.split(batch)
        assert len(parts) > 1
        assert all(part.size <= batch.size // 2 for part in parts)
        for part in parts:
            assert records.incomplete.batches()
            assert records.pool.available_bytes == 2000 - BATCH_BYTES
            assert drain(records) == [part]
            records.incomplete.settle(part, BatchOutcome(base_offset=1))
        assert batch.is_settled
        assert not records.incomplete.batches()
        assert records.pool.available_bytes == 2000
        assert Batch.read(content).count == sum(part.count for part in parts)

    def test_sequence_numbers_are_compared_across_their_wrap(self) -> None:
        first, second = (ProducerBatch(A0, 100, 100, 0) for _ in range(2))
        first.set_state(BatchState(1, 0, 0x7FFF_FFFF))
        second.set_state(BatchState(1, 0, 0))
        assert precedes(first, second)
        assert not precedes(second, first)
        assert not precedes(first, first)


class AnySchedule(RuleBasedStateMachine):
    """Under any schedule of appends, sends, retries, splits and outcomes, no byte of memory and no record is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.records = accumulator(memory=2000)
        self.sent: list[ProducerBatch] = []
        self.appended: dict[TopicPartition, list[bytes]] = {A0: [], A1: [], B0: []}
        self.written: dict[TopicPartition, list[bytes]] = {A0: [], A1: [], B0: []}
        self.number = 0

    @rule(partition=st.sampled_from([A0, A1, B0]), size=st.integers(0, 300))
    def append(self, partition: TopicPartition, size: int) -> None:
        value = b"%d " % self.number + b"x" * size
        if self.records.append(partition, SerializedRecord(partition.topic, value, timestamp=7), 0) is not None:
            self.appended[partition].append(value)
            self.number += 1

    @rule(partition=st.sampled_from([A0, A1, B0]), sizes=st.lists(st.integers(0, 90), min_size=1, max_size=20))
    def append_columns(self, partition: TopicPartition, sizes: list[int]) -> None:
        values = [b"%d " % (self.number + row) + b"x" * size for row, size in enumerate(sizes)]
        self.number += len(sizes)
        columns, end = Columns(values, None, None, 7), 0
        while end < len(values):
            wanted = max(columns.record_bytes_max(end), min(columns.batch_bytes_max(end, 1), LARGE_BYTES))
            placed = self.records.append_columns(partition, columns, end, 0, None, wanted)
            if placed is None:
                break
            end = placed[2]
        self.appended[partition] += values[:end]

    @precondition(lambda self: not self.sent)
    @rule(bytes_max=st.integers(1, 1000))
    def send(self, bytes_max: int) -> None:
        self.sent = drain(self.records, bytes_max=bytes_max)
        for batch in self.sent:
            self.records.encode(batch)

    @precondition(lambda self: self.sent)
    @rule(outcome=st.sampled_from(["written", "retried", "split"]))
    def answer(self, outcome: str) -> None:
        batch = self.sent.pop()
        if outcome == "retried":
            self.records.requeue(batch, 0)
        elif outcome == "split" and batch.count > 1:
            self.records.split(batch)
        else:
            found = records(Batch.read(batch.encode(Codec.NONE)), 1 << 20)
            self.written[batch.partition] += [each.value or b"" for each in found]
            self.records.incomplete.settle(batch, BatchOutcome(base_offset=0))

    @invariant()
    def memory_is_bounded(self) -> None:
        taken = sum(batch.reserved for batch in self.records.incomplete.batches())
        assert self.records.pool.available_bytes == 2000 - taken >= 0

    def teardown(self) -> None:
        while self.sent or self.records.has_undrained:
            self.send(1000) if not self.sent else self.answer("written")
        assert self.written == self.appended
        assert not self.records.incomplete.batches()
        assert self.records.pool.available_bytes == 2000


AnySchedule.TestCase.settings = settings(max_examples=60, deadline=None)
TestAnySchedule = AnySchedule.TestCase
