"""Tests of verification (KIP-890): a transaction may begin in a log only after the coordinator has confirmed it."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.verification import Verification
from pykbroker.core.producer_epoch import EPOCH_MAX
from wire.error_codes import ErrorCode

ID = 7


def write(producers: Producers, sequence: int, verification: Verification | None, *, epoch: int = 0) -> None:
    """Write a transactional batch of one record."""
    if producers.check(ID, epoch, sequence, 0, True, verification) is None:
        producers.remember(ID, epoch, sequence, 100 + sequence, 0, 0, True)


def refusal(producers: Producers, sequence: int, verification: Verification | None, *, epoch: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        write(producers, sequence, verification, epoch=epoch)
    return refused.value.code


def end(producers: Producers, epoch: int = 0, version: int = 0) -> None:
    """Write an abort marker, from a coordinator of this transaction version."""
    producers.remember_marker(ID, epoch, 0, 200, 0, aborted=True, transaction_version=version)


def test_only_the_first_batch_of_a_transaction_needs_a_verification() -> None:
    producers = Producers()
    verification = producers.begin_verification(ID, 0, 0, 0)
    assert verification is not None
    write(producers, 0, verification)
    assert producers.begin_verification(ID, 0, 1, 0) is None
    write(producers, 1, None)
    assert len(producers.verifications) == 0


@pytest.mark.parametrize("known", [False, True])
def test_a_transaction_without_verification_does_not_begin(known: bool) -> None:
    producers = Producers()
    if known:
        write(producers, 0, producers.begin_verification(ID, 0, 0, 0))
        end(producers)
    assert refusal(producers, int(known), None) is ErrorCode.INVALID_TXN_STATE
    assert refusal(producers, int(known), Verification(0, 0, 0)) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_between_verification_and_write_invalidates_the_verification() -> None:
    producers = Producers()
    stale = producers.begin_verification(ID, 0, 0, 0)
    end(producers)
    assert refusal(producers, 0, stale) is ErrorCode.INVALID_TXN_STATE
    fresh = producers.begin_verification(ID, 0, 0, 0)
    assert refusal(producers, 0, stale) is ErrorCode.INVALID_TXN_STATE, (
        "the old verification stays invalid after a new one has begun"
    )
    write(producers, 0, fresh)


def test_the_marker_of_the_previous_transaction_leaves_the_verification_of_the_next_one() -> None:
    """A client of version 2 begins the next transaction while the marker of the last one is on its way."""
    producers = Producers()
    write(producers, 0, producers.begin_verification(ID, 5, 0, 0, from_zero=True), epoch=5)
    waiting = producers.begin_verification(ID, 6, 0, 0, from_zero=True)
    assert refusal(producers, 0, None, epoch=6) is ErrorCode.INVALID_TXN_STATE
    end(producers, epoch=6, version=2)
    write(producers, 0, waiting, epoch=6)


@pytest.mark.parametrize(
    ("marker_epoch", "version", "stays"),
    [
        (5, 2, True),
        (6, 2, True),
        (7, 2, False),
        (8, 2, False),
        (5, 1, False),
        (6, 1, False),
        (6, 0, False),
        (7, 0, False),
    ],
)
def test_only_the_marker_of_a_later_epoch_ends_a_verification_in_version_2(
    marker_epoch: int, version: int, stays: bool
) -> None:
    producers = Producers()
    waiting = producers.begin_verification(ID, 6, 0, 0, from_zero=True)
    end(producers, marker_epoch, version)
    assert (producers.verifications.get(ID) is waiting) is stays


def test_any_marker_ends_a_verification_in_the_last_epoch() -> None:
    """No later epoch is left for the marker of a transaction that began in the last one."""
    producers = Producers()
    stale = producers.begin_verification(ID, EPOCH_MAX, 0, 0, from_zero=True)
    end(producers, EPOCH_MAX, version=2)
    assert refusal(producers, 0, stale, epoch=EPOCH_MAX) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_of_an_ended_epoch_cannot_use_the_verification_of_the_next_one() -> None:
    producers = Producers()
    shared = producers.begin_verification(ID, 5, 0, 0, from_zero=True)
    assert producers.begin_verification(ID, 6, 0, 0, from_zero=True) is shared
    end(producers, epoch=6, version=2)
    assert refusal(producers, 0, shared, epoch=5) is ErrorCode.INVALID_PRODUCER_EPOCH
    write(producers, 0, shared, epoch=6)


def test_a_late_batch_of_an_older_epoch_leaves_the_verification_of_a_newer_one() -> None:
    producers = Producers()
    shared = producers.begin_verification(ID, 5, 0, 0, from_zero=True)
    producers.begin_verification(ID, 6, 0, 0, from_zero=True)
    write(producers, 0, shared, epoch=5)
    end(producers, epoch=6, version=2)
    write(producers, 0, shared, epoch=6)


def test_a_transaction_that_ended_between_verification_and_write_does_not_restart() -> None:
    producers = Producers()
    write(producers, 0, producers.begin_verification(ID, 0, 0, 0))
    assert producers.begin_verification(ID, 0, 1, 0) is None
    end(producers)
    assert refusal(producers, 1, None) is ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_of_an_older_epoch_does_not_replace_a_verification() -> None:
    producers = Producers()
    write(producers, 0, producers.begin_verification(ID, 0, 0, 0))
    assert refusal(producers, 0, None, epoch=1) is ErrorCode.INVALID_TXN_STATE
    write(producers, 0, producers.begin_verification(ID, 1, 0, 0), epoch=1)


def test_a_fenced_epoch_is_refused_before_a_missing_verification() -> None:
    producers = Producers()
    end(producers, epoch=3)
    assert refusal(producers, 0, None, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_that_arrive_together_share_a_verification_and_keep_their_order() -> None:
    producers = Producers()
    first = producers.begin_verification(ID, 0, 5, 0)
    assert producers.begin_verification(ID, 0, 6, 0) is first
    assert refusal(producers, 6, first) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(producers, 5, first)
    write(producers, 6, first)


def test_a_verification_adopts_a_lower_sequence_or_a_newer_epoch() -> None:
    producers = Producers()
    verification = producers.begin_verification(ID, 0, 5, 0)
    producers.begin_verification(ID, 0, 3, 0)
    assert refusal(producers, 5, verification) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.begin_verification(ID, 1, 9, 0)
    producers.begin_verification(ID, 0, 1, 0)
    write(producers, 9, verification, epoch=1)


@pytest.mark.parametrize("from_zero", [False, True])
def test_an_unknown_producer_of_transaction_version_2_starts_with_sequence_0(from_zero: bool) -> None:
    producers = Producers()
    verification = producers.begin_verification(ID, 0, 5, 0, from_zero=from_zero)
    if from_zero:
        assert refusal(producers, 5, verification) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        write(producers, 0, verification)
    else:
        write(producers, 5, verification)


def test_a_duplicate_needs_no_verification() -> None:
    producers = Producers()
    write(producers, 0, producers.begin_verification(ID, 0, 0, 0))
    end(producers)
    duplicate = producers.check(ID, 0, 0, 0, True, None)
    assert duplicate is not None
    assert duplicate.base_offset == 100


def test_a_batch_of_a_coordinator_without_a_sequence_needs_a_verification() -> None:
    producers = Producers()
    with pytest.raises(ApiError) as refused:
        producers.check_verified(ID, 0, None)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    producers.check_verified(ID, 0, producers.begin_verification(ID, 0, -1, 0))


def test_an_unused_verification_expires() -> None:
    producers = Producers()
    producers.begin_verification(1, 0, 0, 1000)
    producers.begin_verification(2, 0, 0, 1001)
    producers.expire(2000, 1000)
    assert len(producers.verifications) == 1
    producers.expire(2001, 1000)
    assert len(producers.verifications) == 0
