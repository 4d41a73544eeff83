"""Timeouts and expiration of transactional ids, and the hand-out of decided transactions to the marker writer."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pykbroker.core.txn import machine
from pykbroker.core.txn.end_waiters import WAITING_MAX
from pykbroker.core.txn.requests import InitProducer, Markers, TransactionAnswer
from pykbroker.core.txn.state import TransactionState
from tests.unit.core.txn.room import NAME, ORDERS, Room, at_epoch
from wire.error_codes import ErrorCode

MINUTE_MS = 60_000
WEEK_MS = 604_800_000


@pytest.mark.parametrize(
    ("passed_ms", "state"), [(MINUTE_MS, TransactionState.ONGOING), (MINUTE_MS + 1, TransactionState.PREPARE_ABORT)]
)
def test_a_transaction_that_exceeds_its_timeout_is_aborted(passed_ms: int, state: TransactionState) -> None:
    room = Room(abort_interval_ms=1)
    room.init(timeout_ms=MINUTE_MS)
    room.add(ORDERS)
    room.pass_ms(passed_ms)
    assert room.known.state is state


def test_adding_partitions_does_not_extend_the_transaction_timeout() -> None:
    room = Room(abort_interval_ms=1)
    room.init(timeout_ms=MINUTE_MS)
    room.add(ORDERS)
    room.pass_ms(MINUTE_MS)
    room.add(("late", 1))
    room.pass_ms(1)
    assert room.known.state is TransactionState.PREPARE_ABORT
    assert room.end(commit=True).error_code is ErrorCode.PRODUCER_FENCED


def test_timeouts_are_checked_once_in_an_interval() -> None:
    room = Room(abort_interval_ms=10_000)
    room.init(timeout_ms=1)
    room.add(ORDERS)
    room.pass_ms(9_999)
    states = [room.known.state]
    room.pass_ms(1)
    assert [*states, room.known.state] == [TransactionState.ONGOING, TransactionState.PREPARE_ABORT]


def test_a_transaction_timeout_keeps_running_across_a_restart() -> None:
    room = Room(abort_interval_ms=10)
    room.init(timeout_ms=MINUTE_MS)
    room.add(ORDERS)
    room.pass_ms(MINUTE_MS)
    room.load()
    room.pass_ms(10)
    assert room.known.state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize(("passed_ms", "known"), [(WEEK_MS - 1, True), (WEEK_MS, False)])
def test_an_unused_transactional_id_expires(passed_ms: int, known: bool) -> None:
    room = Room(expire_interval_ms=1)
    room.init()
    room.pass_ms(passed_ms)
    assert (room.log[-1].value is not None) is known
    assert room.init().epoch == (1 if known else 0)


def test_nothing_is_kept_of_an_expired_transactional_id() -> None:
    """Check the renewals, too: they are in no record and would otherwise grow with every id that ever existed."""
    room = Room(expire_interval_ms=1)
    room.init()
    room.init(100, 0)
    room.add(ORDERS, epoch=1)
    room.end(commit=True, epoch=1)
    room.complete()
    assert NAME in str(vars(room.machine))
    room.pass_ms(WEEK_MS)
    assert room.log[-1].value is None
    assert {kind for kind, kept in vars(room.machine).items() if isinstance(kept, Collection) and NAME in kept} == set()


@pytest.mark.parametrize(
    "state", [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
)
def test_a_transactional_id_with_an_incomplete_transaction_does_not_expire(state: TransactionState) -> None:
    room = Room(expire_interval_ms=1, abort_interval_ms=WEEK_MS * 2)
    room.load(at_epoch(0, state=state))
    room.pass_ms(WEEK_MS * 2 - 1)
    assert room.known.state is state


def test_many_transactional_ids_expire_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RECORDS_MAX", 2)
    room = Room(expire_interval_ms=WEEK_MS, abort_interval_ms=WEEK_MS + 1)
    for number in range(5):
        room.ask(InitProducer(f"one of {number}", MINUTE_MS))
    room.wall_ms += WEEK_MS
    lengths = []
    while room.machine.deadline_ms <= room.wall_ms:
        said = room.machine.tick(room.now)
        lengths.append(room._take(said))
    assert lengths == [2, 2, 1]


def test_the_marker_writer_is_answered_with_the_decision() -> None:
    room = Room()
    room.init()
    room.add(ORDERS)
    room.await_markers("writer")
    assert "writer" not in room.told
    room.end(commit=True)
    assert room.told.pop("writer") == Markers((room.known,))
    room.await_markers("writer")
    assert "writer" not in room.told, "each is handed out once"
    room.complete()
    room.add(ORDERS)
    room.end(commit=False)
    assert room.told.pop("writer") == Markers((room.known,))


def test_a_decision_waits_for_the_marker_writer() -> None:
    room = Room()
    room.init()
    room.add(ORDERS)
    room.end(commit=True)
    room.await_markers("writer")
    assert room.told.pop("writer") == Markers((room.known,))


def test_a_restart_hands_out_all_incomplete_transactions() -> None:
    room = Room()
    room.init()
    room.add(ORDERS)
    room.await_markers("writer")
    room.end(commit=True)
    room.load()
    room.await_markers("another")
    assert room.told.pop("another") == Markers((room.known,))


def test_a_timed_out_transaction_is_handed_to_the_marker_writer() -> None:
    room = Room(abort_interval_ms=10)
    room.init(timeout_ms=1)
    room.add(ORDERS)
    room.await_markers("writer")
    room.pass_ms(10)
    assert room.told.pop("writer") == Markers((room.known,))


def test_a_second_marker_writer_relieves_the_first() -> None:
    room = Room()
    room.await_markers("first")
    room.await_markers("second")
    assert room.told.pop("first") == Markers(())
    room.ask(InitProducer(NAME, MINUTE_MS))
    room.add(ORDERS)
    assert room.end(commit=True) == TransactionAnswer()
    assert room.told.pop("second") == Markers((room.known,))


def test_a_caller_that_waits_for_a_transactions_end_is_answered() -> None:
    room = prepared()
    room.await_end("first", 100)
    room.await_end("second", 50)
    room.pass_ms(49)
    assert room.told == {}
    room.complete()
    assert room.told == {"first": TransactionAnswer(), "second": TransactionAnswer()}


def test_a_wait_for_a_transactions_end_is_bounded() -> None:
    room = prepared()
    room.await_end("late", 100)
    room.await_end("early", 50)
    room.pass_ms(50)
    assert room.told == {"early": TransactionAnswer()}
    room.pass_ms(50)
    assert room.told == {"early": TransactionAnswer(), "late": TransactionAnswer()}
    room.complete()
    assert len(room.told) == 2


def test_a_caller_without_markers_to_wait_for_is_answered_at_once() -> None:
    room = Room()
    room.await_end("unknown", 100)
    room.init()
    room.add(ORDERS)
    room.await_end("ongoing", 100)
    room.end(commit=True)
    room.complete()
    room.await_end("complete", 100)
    assert room.told == dict.fromkeys(("unknown", "ongoing", "complete"), TransactionAnswer())


def test_the_number_of_callers_that_wait_for_one_end_is_bounded() -> None:
    room = prepared()
    for number in range(WAITING_MAX):
        room.await_end(number, 100)
    assert room.told == {}
    room.await_end("too many", 100)
    assert room.told == {"too many": TransactionAnswer()}
    room.complete()
    assert len(room.told) == WAITING_MAX + 1


def prepared() -> Room:
    """Return a machine with a transaction whose markers are being written."""
    room = Room()
    room.init()
    room.add(ORDERS)
    room.end(commit=True)
    return room
