"""Tests of idempotent producers in one log: sequences, duplicates, fencing and transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker, Producers, WrittenBatch
from pykbroker.core.log.transactions import AbortedTransaction
from wire.error_codes import ErrorCode

ID = 7
SEQUENCE_MAX = 2**31 - 1


def append(
    producers: Producers, sequence: int, count: int, base_offset: int, *, epoch: int = 0, transactional: bool = False
) -> WrittenBatch | None:
    """Check, write and remember a verified batch, as a log does; return the original batch of a duplicate."""
    shown = producers.begin_verification(ID, epoch, sequence, 0) if transactional else None
    written = producers.check(ID, epoch, sequence, count - 1, transactional, shown)
    if written is None:
        producers.remember(ID, epoch, sequence, base_offset, count - 1, 1000 + base_offset, transactional)
    return written


def refused(producers: Producers, sequence: int, count: int = 1, *, epoch: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as refusal:
        append(producers, sequence, count, 99, epoch=epoch)
    return refusal.value.code


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.integers(SEQUENCE_MAX - 200, SEQUENCE_MAX))
def test_sequences_wrap_and_the_last_five_batches_are_duplicates(counts: list[int], first: int) -> None:
    producers, sequence, offset = Producers(), first, 0
    sent = []
    for count in counts:
        assert append(producers, sequence, count, offset) is None
        sent.append((sequence, count, offset))
        sequence, offset = (sequence + count) % 2**31, offset + count
    for sequence, count, offset in sent[-5:]:
        again = append(producers, sequence, count, 10_000)
        assert again is not None
        assert (again.base_offset, again.last_offset, again.timestamp) == (offset, offset + count - 1, 1000 + offset)
    if len(sent) > 5:
        assert refused(producers, *sent[-6][:2]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    producers = Producers()
    assert append(producers, 41, 2, 0) is None
    assert append(producers, 43, 1, 2) is None


@pytest.mark.parametrize("sequence", [0, 9, 11, SEQUENCE_MAX])
def test_a_gap_in_the_sequence_is_out_of_order(sequence: int) -> None:
    producers = Producers()
    append(producers, 0, 10, 0)
    assert refused(producers, sequence) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_same_first_sequence_with_another_count_is_no_duplicate() -> None:
    producers = Producers()
    append(producers, 0, 10, 0)
    assert refused(producers, 0, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    producers = Producers()
    append(producers, 0, 10, 0)
    assert refused(producers, 10, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, 0, 1, 10, epoch=1) is None
    assert refused(producers, 10, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_of_a_fenced_epoch_is_no_duplicate() -> None:
    producers = Producers()
    append(producers, 0, 10, 0)
    append(producers, 0, 10, 10, epoch=1)
    assert refused(producers, 0, 10, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_with_the_next_epoch_resets_the_sequence() -> None:
    producers = Producers()
    append(producers, 0, 3, 0, transactional=True)
    assert producers.remember_marker(ID, 1, 5, 3, 2000, aborted=True) == AbortedTransaction(ID, 0, 3, 4)
    assert refused(producers, 3, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, 0, 1, 4, epoch=1, transactional=True) is None


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    producers = Producers()
    append(producers, 0, 3, 0, transactional=True)
    assert refused(producers, 3) is ErrorCode.INVALID_TXN_STATE


def test_markers_with_an_old_coordinator_epoch_or_producer_epoch_are_refused() -> None:
    producers = Producers()
    append(producers, 0, 3, 0, epoch=4, transactional=True)
    producers.remember_marker(ID, 4, 5, 3, 2000, aborted=False)
    with pytest.raises(ApiError) as fenced:
        producers.check_marker(Marker(ID, 4, True, 4))
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(ApiError) as old:
        producers.check_marker(Marker(ID, 3, True, 5))
    assert old.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    producers.check_marker(Marker(ID, 4, True, 5))


def test_a_marker_of_transaction_version_2_must_have_the_next_producer_epoch() -> None:
    producers = Producers()
    append(producers, 0, 3, 0, transactional=True)
    with pytest.raises(ApiError):
        producers.check_marker(Marker(ID, 0, True, 1, 2))
    producers.check_marker(Marker(ID, 1, True, 1, 2))
    producers.remember_marker(ID, 1, 1, 3, 2000, aborted=False)
    producers.check_marker(Marker(ID, 1, True, 1, 2))  # a retry of the marker


def test_the_last_stable_offset_is_held_by_open_transactions_and_uncommitted_markers() -> None:
    producers = Producers()
    stable = producers.transactions.last_stable_offset
    producers.remember(1, 0, 0, 10, 4, 0, True)
    producers.remember(2, 0, 0, 15, 4, 0, True)
    assert stable(5) == 5
    assert stable(20) == 10
    assert producers.remember_marker(1, 0, 0, 20, 0, aborted=True) == AbortedTransaction(1, 10, 20, 15)
    assert stable(20) == 10
    assert stable(21) == 15
    assert producers.remember_marker(2, 0, 0, 21, 0, aborted=False) is None
    assert stable(22) == 22


def test_idle_producers_expire_unless_they_have_an_open_transaction() -> None:
    producers = Producers()
    producers.remember(1, 0, 0, 0, 0, 1000, False)
    producers.remember(2, 0, 0, 1, 0, 1000, True)
    producers.remember(3, 0, 0, 2, 0, 1500, False)
    producers.expire(1999, 1000)
    assert len(producers) == 3
    producers.expire(2000, 1000)
    assert [one.producer_id for one in producers.entries()] == [2, 3]
