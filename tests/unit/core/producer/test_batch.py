"""A producer batch: its size is bounded, its bytes decode to the records, and every record gets its own result."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.core.producer.batch import (
    RECORDS_MAX,
    SMALL_BYTES_MAX,
    BatchOutcome,
    BatchState,
    ProducerBatch,
    RecordResult,
    record_bytes_max,
)
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import Batch
from wire.records.compression import Codec
from wire.records.record import Headers, Record, records

PARTITION = TopicPartition("topic", 0)
BATCH_BYTES = 16_384
Row = tuple[bytes | None, bytes | None, Headers, int]

contents = st.none() | st.binary(max_size=40) | st.just(b"x" * SMALL_BYTES_MAX)
header_lists = st.just(()) | st.lists(
    st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=80
).map(tuple)
rows = st.lists(
    st.tuples(contents, contents, header_lists, st.integers(-2, 5) | st.integers(-(2**53), 2**53)),
    min_size=1,
    max_size=60,
)


def batch_of(*rows: Row, bytes_max: int = 1 << 30) -> ProducerBatch:
    """Return an open batch of these records."""
    batch = ProducerBatch(PARTITION, bytes_max, bytes_max, 0)
    for index, row in enumerate(rows):
        assert batch.try_append(*row) == index
    return batch


def rows_of(batch: ProducerBatch) -> list[Row]:
    """Return the records of an encoded batch."""
    return [(each.key, each.value, each.headers, each.timestamp) for each in decoded(batch)]


def decoded(batch: ProducerBatch) -> list[Record]:
    """Return the records of a batch, which is encoded without compression if it is not encoded yet."""
    return list(records(Batch.read(batch.encode(Codec.NONE)), 1 << 30))


@settings(max_examples=60, deadline=None)
@given(rows)
def test_a_batch_decodes_to_its_records_and_never_exceeds_its_size(appended: list[Row]) -> None:
    batch = batch_of(*appended)
    size = batch.size
    assert rows_of(batch) == appended
    assert len(batch.encode(Codec.NONE)) <= size
    header = Batch.read(batch.encode(Codec.NONE))
    assert header.max_timestamp == max(-1, *(row[3] for row in appended))
    assert header.crc_ok()


@given(rows)
@settings(max_examples=30, deadline=None)
def test_a_record_alone_in_a_batch_needs_no_more_than_its_bound(appended: list[Row]) -> None:
    for row in appended:
        assert batch_of(row).size <= record_bytes_max(*row[:3])


@pytest.mark.parametrize(("room", "index"), [(-1, None), (0, 1), (1, 1)])
def test_a_record_is_accepted_up_to_the_size_of_the_batch(room: int, index: int | None) -> None:
    row = (b"key", b"value", (), 7)
    full = batch_of(row, row).size
    batch = ProducerBatch(PARTITION, full + room, BATCH_BYTES, 0)
    assert batch.try_append(*row) == 0
    assert batch.try_append(*row) == index


@pytest.mark.parametrize(("room", "index"), [(-1, None), (0, 1), (1, 1)])
def test_a_record_is_accepted_up_to_the_reserved_memory(room: int, index: int | None) -> None:
    row = (None, b"value", (), 7)
    batch = ProducerBatch(PARTITION, BATCH_BYTES, batch_of(row, row).size + room, 0)
    assert batch.try_append(*row) == 0
    assert batch.try_append(*row) == index


def test_the_first_record_may_exceed_the_size_of_a_batch() -> None:
    value = b"x" * BATCH_BYTES
    batch = ProducerBatch(PARTITION, BATCH_BYTES, record_bytes_max(None, value, ()), 0)
    assert batch.try_append(None, value, (), 7) == 0
    assert batch.is_full
    assert batch.try_append(None, b"", (), 7) is None


def test_a_batch_has_a_maximum_number_of_records() -> None:
    batch = batch_of((None, b"", (), 7))
    batch.append_columns([b""] * (RECORDS_MAX - 2), None, None, 7, 0)
    assert not batch.is_full
    assert batch.try_append(None, b"", (), 7) == RECORDS_MAX - 1
    assert batch.is_full
    assert batch.try_append(None, b"", (), 7) is None


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (-(2**63), -1, True),
        (-(2**63), 0, False),
        (2**63 - 1, -1, True),
        (2**63 - 1, -2, False),
        (0, -(2**63), True),
        (-2, -2, True),
    ],
)
def test_the_times_of_a_batch_differ_by_no_more_than_63_bits(first: int, second: int, fits: bool) -> None:
    batch = batch_of((None, b"a", (), first))
    assert batch.try_append(None, b"b", (), second) == (1 if fits else None)
    assert [each.timestamp for each in decoded(batch)] == [first, second][: batch.count]
    assert Batch.read(batch.encode(Codec.NONE)).max_timestamp == max(-1, *[first, second][: batch.count])


def test_a_closed_batch_accepts_no_record() -> None:
    batch = batch_of((None, b"value", (), 7))
    batch.close()
    assert batch.try_append(None, b"value", (), 7) is None


def test_a_refused_record_changes_nothing() -> None:
    first, second = (None, b"a", (), 5), (None, b"b", (), 5)
    batch = ProducerBatch(PARTITION, batch_of(first, second).size, BATCH_BYTES, 0)
    batch.try_append(*first)
    assert batch.try_append(b"too long a key", b"b", (("header", b""),), 2**40) is None
    assert batch.try_append(*second) == 1
    assert rows_of(batch) == [first, second]


def test_columns_follow_records_that_have_keys_and_headers() -> None:
    batch = batch_of((b"key", b"value", (("header", b"1"),), 5))
    batch.append_columns([b"a", b"b"], None, None, 6, 100)
    batch.append_columns([b"c"], [b"k"], None, 6, 100)
    assert batch.try_append(None, None, (), 5) == 4
    batch.append_columns([b"d"], None, [(("h", None),)], 5, 100)
    assert rows_of(batch) == [
        (b"key", b"value", (("header", b"1"),), 5),
        (None, b"a", (), 6),
        (None, b"b", (), 6),
        (b"k", b"c", (), 6),
        (None, None, (), 5),
        (None, b"d", (("h", None),), 5),
    ]


def test_columns_bring_the_first_headers_of_a_batch() -> None:
    batch = batch_of((None, b"a", (), 5))
    batch.append_columns([b"b", b"c"], None, [(("h", b"1"),), ()], 5, 100)
    assert rows_of(batch) == [(None, b"a", (), 5), (None, b"b", (("h", b"1"),), 5), (None, b"c", (), 5)]


@pytest.mark.parametrize("codec", Codec)
def test_the_state_of_the_producer_can_change_after_encoding(codec: Codec) -> None:
    batch = batch_of((b"key", b"value" * 50, (), 7))
    batch.set_state(BatchState(5, 1, 10))
    first = batch.encode(codec)
    assert batch.encode(codec) is first
    batch.set_state(BatchState(5, 2, 0, transactional=True))
    second = Batch.read(batch.encode(codec))
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == (5, 2, 0)
    assert second.is_transactional
    assert second.crc_ok()
    assert [(each.key, each.value) for each in records(second, 1 << 20)] == [(b"key", b"value" * 50)]
    batch.set_state(BatchState(5, 1, 10))
    assert batch.encode(codec) == first


class TestOutcome:
    """The outcome of a batch is set once and reaches every record."""

    def test_a_record_has_its_offset_and_its_timestamp(self) -> None:
        batch = batch_of((None, b"a", (), 5), (None, b"b", (), 5), (None, b"c", (), 9))
        assert batch.settle(BatchOutcome(base_offset=40))
        assert [batch.result_of(index) for index in range(3)] == [
            RecordResult(40, 5),
            RecordResult(41, 5),
            RecordResult(42, 9),
        ]

    def test_an_append_time_replaces_the_timestamps(self) -> None:
        batch = batch_of((None, b"a", (), 5))
        batch.settle(BatchOutcome(base_offset=40, append_time_ms=77))
        assert batch.result_of(0) == RecordResult(40, 77)

    def test_without_acknowledgement_the_offset_is_unknown(self) -> None:
        batch = batch_of((None, b"a", (), 5), (None, b"b", (), 6))
        batch.settle(BatchOutcome())
        assert batch.result_of(1) == RecordResult(-1, 6)

    def test_the_first_outcome_stands(self) -> None:
        batch = batch_of((None, b"a", (), 5))
        assert batch.settle(BatchOutcome(error=TimeoutError("late")))
        assert not batch.settle(BatchOutcome(base_offset=1))
        with pytest.raises(TimeoutError, match="late"):
            batch.result_of(0)

    def test_single_records_may_have_errors_of_their_own(self) -> None:
        batch = batch_of((None, b"a", (), 5), (None, b"b", (), 5))
        batch.settle(BatchOutcome(error=OSError("batch"), record_errors={1: ValueError("record")}))
        with pytest.raises(OSError, match="batch"):
            batch.result_of(0)
        with pytest.raises(ValueError, match="record"):
            batch.result_of(1)

    def test_waiters_are_returned_once_in_their_order(self) -> None:
        batch, called = batch_of((None, b"a", (), 5)), []
        batch.when_settled(lambda: called.append(1))
        batch.when_settled(lambda: called.append(2))
        assert batch.take_waiters() == []
        batch.settle(BatchOutcome())
        for waiter in batch.take_waiters() + batch.take_waiters():
            waiter()
        assert called == [1, 2]


class TestSplit:
    """A batch that is too large becomes several batches, and its records keep their results."""

    @settings(max_examples=40, deadline=None)
    @given(rows, st.integers(100, 2000), st.integers(0, 0x7FFF_FFFF))
    def test_the_parts_have_the_records_in_order(self, appended: list[Row], bytes_max: int, sequence: int) -> None:
        batch = batch_of(*appended)
        batch.set_state(BatchState(1, 0, sequence))
        batch.encode(Codec.NONE)
        parts = batch.split(bytes_max)
        assert [row for part in parts for row in rows_of(part)] == appended
        for part in parts:
            assert part.state == BatchState(1, 0, sequence)
            assert len(part.encode(Codec.NONE)) <= bytes_max or part.count == 1
            sequence = (sequence + part.count) & 0x7FFF_FFFF

    def test_the_batch_is_settled_with_its_last_part(self) -> None:
        batch, called = batch_of(*[(None, b"%d" % index, (), index) for index in range(10)]), []
        batch.when_settled(lambda: called.append(True))
        batch.encode(Codec.NONE)
        first, *others = batch.split(100)
        first.settle(BatchOutcome(base_offset=100))
        for part in others[:-1]:
            part.settle(BatchOutcome(base_offset=200))
        assert not batch.is_settled
        assert others[0].take_waiters() == []
        others[-1].settle(BatchOutcome(error=OSError("refused")))
        assert batch.is_settled
        for waiter in others[-1].take_waiters():
            waiter()
        assert called == [True]
        assert batch.result_of(0) == RecordResult(100, 0)
        assert batch.result_of(first.count) == RecordResult(200, first.count)
        with pytest.raises(OSError, match="refused"):
            batch.result_of(9)

    def test_a_part_can_be_split_again(self) -> None:
        batch = batch_of(*[(None, b"%d" % index, (), index) for index in range(10)])
        batch.encode(Codec.NONE)
        part = batch.split(110)[0]
        part.encode(Codec.NONE)
        assert part.count > 1
        parts = part.split(1)
        for offset, single in enumerate(parts):
            single.settle(BatchOutcome(base_offset=offset))
        assert part.is_settled
        assert not batch.is_settled
        assert [batch.result_of(index).offset for index in range(len(parts))] == list(range(len(parts)))
