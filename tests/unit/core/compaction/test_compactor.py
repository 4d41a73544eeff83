"""Tests of a round of compaction: the values, tombstones, markers, producer states and batch headers that it keeps."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.compaction.compactor import Begin, Compact, Compacted, Compactor, Note, Noted, SegmentGroup
from tests.unit.core.compaction.rounds import NOW, RETENTION_MS, CompactedLog, ask, view
from wire.records.builder import stamped
from wire.records.compression import Codec
from wire.records.record import records

A, B, C = b"a", b"b", b"c" * 40
LATER = NOW + RETENTION_MS
DATA = {"producer_id": 7, "producer_epoch": 0}
IN_TRANSACTION = {**DATA, "transactional": True}


def test_the_newest_record_of_a_key_keeps_its_offset() -> None:
    log = CompactedLog()
    log.put((A, b"1"), (C, b"2"))
    log.put((A, b"3"), (B, b"4"))
    log.put((C, b"5"))
    assert log.compact() == 4
    assert log.pairs() == [(2, A, b"3"), (3, B, b"4"), (4, C, b"5")]


def test_records_above_the_last_offset_of_the_offset_map_stay() -> None:
    log = CompactedLog()
    for value in b"12345":
        log.put((A, bytes([value])), (B, bytes([value])))
    assert log.compact(keys_max=1) == 1
    assert log.pairs() == [
        (offset, key, value)
        for number, value in enumerate((b"1", b"2", b"3", b"4", b"5"))
        for offset, key in ((2 * number, A), (2 * number + 1, B))
    ]


def test_records_of_the_dirty_section_replace_clean_records() -> None:
    log = CompactedLog()
    log.put((A, b"1"))
    log.put((B, b"1"), (B, b"2"))
    log.put((A, b"2"))
    log.compact(first_dirty=3)
    assert log.pairs() == [(1, B, b"1"), (2, B, b"2"), (3, A, b"2")]


def test_records_without_a_key_are_deleted() -> None:
    log = CompactedLog()
    log.put((None, b"1"), (A, b"2"))
    log.compact()
    assert log.pairs() == [(1, A, b"2")]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_records_keeps_the_rest_of_its_header(codec: Codec) -> None:
    log = CompactedLog()
    log.put(
        (A, b"1"), (B, b"2"), (C, b"3"), codec=codec, producer_id=7, producer_epoch=3, base_sequence=11, leader_epoch=5
    )
    (before,) = log.batches()
    log.put((C, b"4"), (A, b"5"), codec=codec)
    untouched = log.batches()[1].buffer
    log.compact()
    after, second = log.batches()
    assert (after.base_offset, after.last_offset_delta, after.base_sequence, after.leader_epoch) == (0, 2, 11, 5)
    assert (after.producer_id, after.producer_epoch, after.codec, after.count) == (7, 3, codec, 1)
    assert after.base_timestamp == before.base_timestamp
    assert after.max_timestamp == NOW + 1
    assert [(one.offset, one.value, one.timestamp) for one in records(after, 1 << 20)] == [(1, b"2", NOW + 1)]
    assert second.buffer == untouched


def test_log_append_time_is_preserved() -> None:
    log = CompactedLog()
    log.put((A, b"1"), (B, None), (A, b"2"))
    log.data = stamped(log.batches()[0], NOW + 50)
    log.compact()
    (batch,) = log.batches()
    assert batch.is_log_append_time
    assert [(one.offset, one.timestamp) for one in records(batch, 1 << 20)] == [(1, NOW + 50), (2, NOW + 50)]


def test_a_tombstone_gets_a_delete_horizon_and_is_deleted_after_it() -> None:
    log = CompactedLog()
    log.put((A, b"1"))
    log.put((A, None), (B, b"2"))
    log.compact()
    (batch,) = log.batches()
    assert batch.has_delete_horizon
    assert batch.base_timestamp == LATER
    assert [(one.offset, one.value, one.timestamp) for one in log.records()] == [(1, None, NOW), (2, b"2", NOW + 1)]
    log.compact(LATER - 1, first_dirty=3)
    assert log.batches() == [batch]
    log.compact(LATER, first_dirty=3)
    assert [(one.offset, one.value, one.timestamp) for one in log.records()] == [(2, b"2", NOW + 1)]
    assert log.batches()[0].base_timestamp == LATER


def test_the_last_batch_of_a_round_stays_as_a_header_without_records() -> None:
    log = CompactedLog()
    log.put((A, b"1"))
    log.put((None, b"2"), (None, b"3"))
    log.compact()
    first, last = log.batches()
    assert first.count == 1
    assert (last.base_offset, last.last_offset, last.count, last.size) == (1, 2, 0, 61)
    log.put((A, b"4"))
    log.compact()
    assert [one.base_offset for one in log.batches()] == [3]


def test_the_last_sequence_of_an_active_producer_stays() -> None:
    log = CompactedLog()
    log.put((A, b"1"), base_sequence=0, **DATA)
    log.put((A, b"2"), (A, b"3"), base_sequence=1, **DATA)
    log.put((A, b"4"))
    log.compact(live=True)
    bare, _ = log.batches()
    assert (bare.base_offset, bare.last_offset, bare.base_sequence, bare.count) == (1, 2, 1, 0)
    producers, _ = log.known()
    assert producers.check(7, 0, 3, 0, False) is None
    log.compact(live=False)
    assert [one.base_offset for one in log.batches()] == [3]


def test_aborted_records_replace_no_records_and_are_deleted_before_their_marker() -> None:
    log = CompactedLog()
    log.put((A, b"1"))
    log.put((A, b"void"), base_sequence=0, **IN_TRANSACTION)
    log.mark(7, commit=False)
    log.put((B, b"2"))
    log.compact()
    assert log.pairs() == [(0, A, b"1"), (3, B, b"2")]
    assert [one.base_offset for one in log.batches() if one.is_control] == [2]
    log.compact(first_dirty=4)
    (marker,) = [one for one in log.batches() if one.is_control]
    assert marker.base_timestamp == LATER
    log.compact(LATER - 1, first_dirty=4)
    assert [one.base_offset for one in log.batches() if one.is_control] == [2]
    log.compact(LATER, first_dirty=4)
    assert [one.base_offset for one in log.batches()] == [0, 3]


def test_a_marker_stays_as_long_as_its_transaction_has_records() -> None:
    log = CompactedLog()
    log.put((A, b"1"), base_sequence=0, **IN_TRANSACTION)
    log.mark(7, commit=True)
    log.put((B, b"2"))
    for number in range(3):
        log.compact(LATER * (number + 1), first_dirty=3 * number)
    assert [one.base_offset for one in log.batches()] == [0, 1, 2]
    log.put((A, b"3"))
    log.compact(first_dirty=3)
    assert [one.base_offset for one in log.batches()] == [1, 2, 3]
    log.compact(first_dirty=4)
    log.compact(LATER, first_dirty=4)
    assert [one.base_offset for one in log.batches()] == [2, 3]


def test_a_marker_is_deleted_even_if_an_earlier_transaction_of_its_producer_has_records() -> None:
    log = CompactedLog()
    log.put((A, b"1"), base_sequence=0, **IN_TRANSACTION)
    log.mark(7, commit=True)
    log.mark(7, commit=True)
    log.put((B, b"2"))
    log.compact()
    log.compact(LATER, first_dirty=4)
    assert [one.base_offset for one in log.batches() if one.is_control] == [1]


def test_a_control_batch_of_an_unknown_type_stays() -> None:
    """A control record of a newer broker ends no transaction and is kept, as in Kafka."""
    log = CompactedLog()
    log.put((A, b"1"), base_sequence=0, **IN_TRANSACTION)
    log.put((bytes((0, 0, 0, 9)), b""), control=True, **IN_TRANSACTION)
    log.mark(7, commit=False)
    log.put((B, b"2"))
    for number in range(3):
        log.compact(LATER * (number + 1))
    assert [one.base_offset for one in log.batches()] == [1, 3]


def test_the_last_marker_of_an_active_producer_stays_to_preserve_its_epoch() -> None:
    log = CompactedLog()
    log.mark(7, commit=True, epoch=4)
    log.put((B, b"2"))
    log.compact(live=True)
    log.compact(LATER, first_dirty=2, live=True)
    bare = log.batches()[0]
    assert (bare.count, bare.is_control, bare.producer_epoch) == (0, True, 4)


def test_compaction_stops_at_a_corrupt_batch() -> None:
    log = CompactedLog()
    log.put((A, b"1"))
    good = len(log.data)
    log.put((B, b"2"))
    damaged = bytearray(log.data)
    damaged[-1] ^= 1
    compactor = Compactor()
    ask(compactor, Begin(0, 2, NOW, 0, 10, []), None)
    ask(compactor, SegmentGroup({}), None)
    for request, answer in ((Note, Noted), (Compact, Compacted)):
        result = ask(compactor, request(bytes(damaged)), answer)
        assert result.taken == good
        assert "offset 1" in result.damage
        assert ask(compactor, request(log.data[: good - 1]), answer).taken == 0


def test_the_compactor_refuses_requests_before_begin() -> None:
    with pytest.raises(ValueError, match="must start with Begin"):
        Compactor().handle(msgspec.msgpack.encode(Note(b"")))


KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 30, b"d" * 31])
PAIRS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(st.sampled_from([-1, 1, 2]), PAIRS, st.sampled_from(Codec), st.sampled_from(["on", "commit", "abort"])),
    min_size=1,
    max_size=15,
)


def append_steps(log: CompactedLog, steps: list[tuple[int, list[tuple[bytes, bytes | None]], Codec, str]]) -> None:
    """Append batches of two transactional producers and of a producer without id; end every transaction."""
    for producer, pairs, codec, then in steps:
        fields = {"producer_epoch": 0, "base_sequence": log.end, "transactional": True} if producer > 0 else {}
        log.put(*pairs, codec=codec, producer_id=producer, **fields)
        if producer > 0 and then != "on":
            log.mark(producer, commit=then == "commit")
    for producer in (1, 2):
        log.mark(producer, commit=True)


@given(STEPS, STEPS, st.integers(1, 6), st.booleans(), st.integers(70, 400))
def test_compaction_never_changes_the_last_value_of_a_key(first, second, keys_max, live, piece) -> None:
    log = CompactedLog()
    append_steps(log, first)
    before, dirty = view(log.records(committed=True)), 0
    for now_ms in (NOW, NOW, LATER):
        dirty = log.compact(now_ms, first_dirty=dirty, keys_max=keys_max, live=live, piece=max(piece, 3000)) + 1
        assert view(log.records(committed=True)) == before
    append_steps(log, second)
    before = view(log.records(committed=True))
    offsets = {(one.offset, one.key, one.value) for one in log.records()}
    for now_ms in (NOW, LATER, LATER, LATER + RETENTION_MS):
        dirty = min(log.end, log.compact(now_ms, first_dirty=dirty, keys_max=keys_max, live=live) + 1)
        assert view(log.records(committed=True)) == before
        assert {(one.offset, one.key, one.value) for one in log.records()} <= offsets
    while dirty < log.end:
        dirty = log.compact(LATER, first_dirty=dirty, live=live) + 1
    committed = log.records(committed=True)
    assert len({one.key for one in committed}) == len(committed)
    assert committed == log.records()
