"""Tests of verification (KIP-890): a transaction may begin in a log only after the coordinator has confirmed it."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.verification import Verification
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


def end(producers: Producers, epoch: int = 0) -> None:
    producers.remember_marker(ID, epoch, 0, 200, 0, aborted=True)


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
