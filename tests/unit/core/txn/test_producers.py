"""Tests of InitProducerId: takeovers, recovery after an error, fencing and exhausted epochs."""

from __future__ import annotations

import pytest

from pykbroker.core.producer_epoch import EPOCH_MAX
from pykbroker.core.txn.requests import TransactionAnswer
from pykbroker.core.txn.state import TransactionState
from tests.unit.core.txn.harness import LAST_EPOCH, ORDERS, TransactionsHarness, at_epoch
from wire.error_codes import ErrorCode

FENCED = TransactionAnswer(ErrorCode.PRODUCER_FENCED)
BUSY = TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (-1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (1, ErrorCode.NONE),
        (5000, ErrorCode.NONE),
        (5001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_the_transaction_timeout_is_limited(timeout_ms: int, code: ErrorCode) -> None:
    harness = TransactionsHarness(timeout_ms_max=5000)
    assert harness.init(timeout_ms=timeout_ms).error_code is code
    assert len(harness.log) == (code is ErrorCode.NONE)


def test_each_new_producer_instance_gets_the_next_epoch() -> None:
    harness = TransactionsHarness()
    assert [harness.init().epoch for _ in range(3)] == [0, 1, 2]
    assert harness.add(ORDERS, epoch=1) is ErrorCode.PRODUCER_FENCED


def test_a_new_transactional_id_needs_a_producer_id() -> None:
    harness = TransactionsHarness()
    harness.ids.left = 0
    assert harness.init() == TransactionAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not harness.log


def test_a_takeover_first_aborts_the_open_transaction() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    assert harness.init() == BUSY
    assert (harness.known.state, harness.known.epoch) == (TransactionState.PREPARE_ABORT, 1)
    assert harness.end(commit=True) == FENCED
    assert harness.init() == BUSY, "InitProducerId is refused until the markers are written"
    harness.complete()
    assert harness.init() == TransactionAnswer(producer_id=100, epoch=2)


@pytest.mark.parametrize("version", [1, 2])
def test_fencing_bumps_the_epoch_once_in_both_transaction_versions(version: int) -> None:
    harness = TransactionsHarness(transaction_version=version)
    harness.init()
    harness.add(ORDERS)
    harness.init()
    harness.complete()
    assert (harness.known.epoch, harness.known.client_version) == (1, 2 if version == 2 else 0)


@pytest.mark.parametrize(("version", "answer"), [(1, FENCED), (2, TransactionAnswer(producer_id=100, epoch=1))])
def test_a_producer_whose_transaction_timed_out_may_continue_in_version_2(
    version: int, answer: TransactionAnswer
) -> None:
    harness = TransactionsHarness(transaction_version=version, abort_interval_ms=1)
    harness.init()
    harness.add(ORDERS)
    harness.pass_ms(60_001)
    harness.complete()
    assert harness.init(100, 0) == answer


def test_a_fenced_producer_may_not_continue() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    harness.init()
    harness.complete()
    harness.init()
    assert harness.init(100, 0) == FENCED
    assert harness.init(100, 1) == FENCED


def test_a_producer_may_repeat_an_init_producer_id_with_its_epoch() -> None:
    harness = TransactionsHarness()
    harness.init()
    assert harness.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1)
    assert harness.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1), "a retry after a lost response succeeds"
    assert harness.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1)
    assert harness.init(100, 1) == TransactionAnswer(producer_id=100, epoch=2)
    assert harness.init(100, 0) == FENCED
    assert harness.init(100, 3) == FENCED
    assert harness.init(99, 2) == FENCED


def test_a_producer_may_not_continue_after_a_takeover() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.init(100, 0)
    assert harness.init().epoch == 2
    assert harness.init(100, 0) == FENCED
    assert harness.init(100, 1) == FENCED


def test_an_unknown_transactional_id_with_a_producer_id_is_created() -> None:
    harness = TransactionsHarness()
    assert harness.init(55, 7) == TransactionAnswer(producer_id=100, epoch=0)


def test_init_producer_id_after_a_lost_end_txn_response_bumps_no_further_epoch() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS, version=2)
    harness.end(commit=True, version=2)
    harness.complete()
    assert harness.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1)
    assert harness.init(100, 1) == TransactionAnswer(producer_id=100, epoch=2)


def test_the_last_epoch_is_reserved_for_fencing() -> None:
    harness = TransactionsHarness()
    harness.load(at_epoch(LAST_EPOCH - 1))
    assert harness.init() == TransactionAnswer(producer_id=100, epoch=LAST_EPOCH)
    assert harness.init() == TransactionAnswer(producer_id=100, epoch=0), "the source of producer ids starts at 100"
    assert harness.known.previous_producer_id == 100


@pytest.mark.parametrize("epoch", [LAST_EPOCH, EPOCH_MAX])
def test_an_exhausted_epoch_leads_to_a_new_producer_id(epoch: int) -> None:
    harness = TransactionsHarness()
    harness.ids.next = 300
    harness.load(at_epoch(epoch, state=TransactionState.COMPLETE_ABORT))
    assert harness.init(100, epoch) == TransactionAnswer(producer_id=300, epoch=0)
    assert harness.init(100, LAST_EPOCH - 1) == FENCED
    again = harness.init(100, epoch)
    assert again == TransactionAnswer(producer_id=300, epoch=0), "a retry after a lost response succeeds"
