"""Tests of transaction timeouts, expired transactional ids, and prepared transactions for the marker writer."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pykbroker.core.txn import machine
from pykbroker.core.txn.end_waiters import WAITING_MAX
from pykbroker.core.txn.requests import InitProducer, Markers, TransactionAnswer
from pykbroker.core.txn.state import TransactionState
from tests.unit.core.txn.harness import NAME, ORDERS, TransactionsHarness, at_epoch
from wire.error_codes import ErrorCode

MINUTE_MS = 60_000
WEEK_MS = 604_800_000


@pytest.mark.parametrize(
    ("passed_ms", "state"), [(MINUTE_MS, TransactionState.ONGOING), (MINUTE_MS + 1, TransactionState.PREPARE_ABORT)]
)
def test_a_transaction_is_aborted_after_its_timeout(passed_ms: int, state: TransactionState) -> None:
    harness = TransactionsHarness(abort_interval_ms=1)
    harness.init(timeout_ms=MINUTE_MS)
    harness.add(ORDERS)
    harness.pass_ms(passed_ms)
    assert harness.known.state is state


def test_adding_partitions_does_not_extend_the_transaction_timeout() -> None:
    harness = TransactionsHarness(abort_interval_ms=1)
    harness.init(timeout_ms=MINUTE_MS)
    harness.add(ORDERS)
    harness.pass_ms(MINUTE_MS)
    harness.add(("late", 1))
    harness.pass_ms(1)
    assert harness.known.state is TransactionState.PREPARE_ABORT
    assert harness.end(commit=True).error_code is ErrorCode.PRODUCER_FENCED


def test_timeouts_are_checked_once_per_interval() -> None:
    harness = TransactionsHarness(abort_interval_ms=10_000)
    harness.init(timeout_ms=1)
    harness.add(ORDERS)
    harness.pass_ms(9_999)
    states = [harness.known.state]
    harness.pass_ms(1)
    assert [*states, harness.known.state] == [TransactionState.ONGOING, TransactionState.PREPARE_ABORT]


def test_a_restart_does_not_reset_the_transaction_timeout() -> None:
    harness = TransactionsHarness(abort_interval_ms=10)
    harness.init(timeout_ms=MINUTE_MS)
    harness.add(ORDERS)
    harness.pass_ms(MINUTE_MS)
    harness.load()
    harness.pass_ms(10)
    assert harness.known.state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize(("passed_ms", "known"), [(WEEK_MS - 1, True), (WEEK_MS, False)])
def test_an_unused_transactional_id_expires(passed_ms: int, known: bool) -> None:
    harness = TransactionsHarness(expire_interval_ms=1)
    harness.init()
    harness.pass_ms(passed_ms)
    assert (harness.log[-1].value is not None) is known
    assert harness.init().epoch == (1 if known else 0)


def test_an_expired_transactional_id_leaves_no_state() -> None:
    """Also check that the renewal times, which no record stores, are removed together with their ids."""
    harness = TransactionsHarness(expire_interval_ms=1)
    harness.init()
    harness.init(100, 0)
    harness.add(ORDERS, epoch=1)
    harness.end(commit=True, epoch=1)
    harness.complete()
    assert NAME in str(vars(harness.machine))
    harness.pass_ms(WEEK_MS)
    assert harness.log[-1].value is None
    assert {
        kind for kind, kept in vars(harness.machine).items() if isinstance(kept, Collection) and NAME in kept
    } == set()


@pytest.mark.parametrize(
    "state", [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
)
def test_a_transactional_id_with_an_incomplete_transaction_does_not_expire(state: TransactionState) -> None:
    harness = TransactionsHarness(expire_interval_ms=1, abort_interval_ms=WEEK_MS * 2)
    harness.load(at_epoch(0, state=state))
    harness.pass_ms(WEEK_MS * 2 - 1)
    assert harness.known.state is state


def test_expired_transactional_ids_are_removed_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RECORDS_MAX", 2)
    harness = TransactionsHarness(expire_interval_ms=WEEK_MS, abort_interval_ms=WEEK_MS + 1)
    for number in range(5):
        harness.ask(InitProducer(f"one of {number}", MINUTE_MS))
    harness.wall_ms += WEEK_MS
    lengths = []
    while harness.machine.deadline_ms <= harness.wall_ms:
        outcome = harness.machine.tick(harness.now)
        lengths.append(harness._take(outcome))
    assert lengths == [2, 2, 1]


def test_the_marker_writer_receives_each_prepared_transaction() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    harness.await_markers("writer")
    assert "writer" not in harness.replies
    harness.end(commit=True)
    assert harness.replies.pop("writer") == Markers((harness.known,))
    harness.await_markers("writer")
    assert "writer" not in harness.replies, "each transaction is returned only once"
    harness.complete()
    harness.add(ORDERS)
    harness.end(commit=False)
    assert harness.replies.pop("writer") == Markers((harness.known,))


def test_a_prepared_transaction_is_kept_until_the_marker_writer_asks() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    harness.end(commit=True)
    harness.await_markers("writer")
    assert harness.replies.pop("writer") == Markers((harness.known,))


def test_a_restart_returns_all_incomplete_transactions_to_the_marker_writer() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    harness.await_markers("writer")
    harness.end(commit=True)
    harness.load()
    harness.await_markers("another")
    assert harness.replies.pop("another") == Markers((harness.known,))


def test_a_transaction_that_timed_out_is_returned_to_the_marker_writer() -> None:
    harness = TransactionsHarness(abort_interval_ms=10)
    harness.init(timeout_ms=1)
    harness.add(ORDERS)
    harness.await_markers("writer")
    harness.pass_ms(10)
    assert harness.replies.pop("writer") == Markers((harness.known,))


def test_a_new_marker_writer_replaces_the_old_one() -> None:
    harness = TransactionsHarness()
    harness.await_markers("first")
    harness.await_markers("second")
    assert harness.replies.pop("first") == Markers(())
    harness.ask(InitProducer(NAME, MINUTE_MS))
    harness.add(ORDERS)
    assert harness.end(commit=True) == TransactionAnswer()
    assert harness.replies.pop("second") == Markers((harness.known,))


def test_callers_that_wait_for_the_markers_are_answered_once_they_are_written() -> None:
    harness = prepared()
    harness.await_end("first", 100)
    harness.await_end("second", 50)
    harness.pass_ms(49)
    assert harness.replies == {}
    harness.complete()
    assert harness.replies == {"first": TransactionAnswer(), "second": TransactionAnswer()}


def test_a_caller_waits_for_the_markers_no_longer_than_its_limit() -> None:
    harness = prepared()
    harness.await_end("late", 100)
    harness.await_end("early", 50)
    harness.pass_ms(50)
    assert harness.replies == {"early": TransactionAnswer()}
    harness.pass_ms(50)
    assert harness.replies == {"early": TransactionAnswer(), "late": TransactionAnswer()}
    harness.complete()
    assert len(harness.replies) == 2


def test_a_caller_that_waits_for_no_markers_is_answered_at_once() -> None:
    harness = TransactionsHarness()
    harness.await_end("unknown", 100)
    harness.init()
    harness.add(ORDERS)
    harness.await_end("ongoing", 100)
    harness.end(commit=True)
    harness.complete()
    harness.await_end("complete", 100)
    assert harness.replies == dict.fromkeys(("unknown", "ongoing", "complete"), TransactionAnswer())


def test_the_number_of_callers_that_wait_for_one_transaction_is_limited() -> None:
    harness = prepared()
    for number in range(WAITING_MAX):
        harness.await_end(number, 100)
    assert harness.replies == {}
    harness.await_end("too many", 100)
    assert harness.replies == {"too many": TransactionAnswer()}
    harness.complete()
    assert len(harness.replies) == WAITING_MAX + 1


def prepared() -> TransactionsHarness:
    """Return a harness with a transaction whose markers are not yet written."""
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    harness.end(commit=True)
    return harness
