"""InitProducerId: taking over a transactional id, continuing after an error, fencing, and exhausted epochs."""

from __future__ import annotations

import pytest

from pykbroker.core.txn.requests import TransactionAnswer
from pykbroker.core.txn.state import TransactionState
from pykbroker.core.txn.transaction import EPOCH_MAX
from tests.unit.core.txn.room import LAST_EPOCH, ORDERS, Room, at_epoch
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
def test_the_transaction_timeout_is_bounded(timeout_ms: int, code: ErrorCode) -> None:
    room = Room(timeout_ms_max=5000)
    assert room.init(timeout_ms=timeout_ms).error_code is code
    assert len(room.log) == (code is ErrorCode.NONE)


def test_each_new_producer_gets_the_next_epoch() -> None:
    room = Room()
    assert [room.init().epoch for _ in range(3)] == [0, 1, 2]
    assert room.add(ORDERS, epoch=1) is ErrorCode.PRODUCER_FENCED


def test_a_new_transactional_id_needs_a_producer_id() -> None:
    room = Room()
    room.ids.left = 0
    assert room.init() == TransactionAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not room.log


def test_a_takeover_first_aborts_the_open_transaction() -> None:
    room = Room()
    room.init()
    room.add(ORDERS)
    assert room.init() == BUSY
    assert (room.known.state, room.known.epoch) == (TransactionState.PREPARE_ABORT, 1)
    assert room.end(commit=True) == FENCED
    assert room.init() == BUSY, "until the markers are written"
    room.complete()
    assert room.init() == TransactionAnswer(producer_id=100, epoch=2)


@pytest.mark.parametrize("version", [1, 2])
def test_fencing_uses_one_epoch_in_either_version(version: int) -> None:
    room = Room(transaction_version=version)
    room.init()
    room.add(ORDERS)
    room.init()
    room.complete()
    assert (room.known.epoch, room.known.client_version) == (1, 2 if version == 2 else 0)


@pytest.mark.parametrize(("version", "answer"), [(1, FENCED), (2, TransactionAnswer(producer_id=100, epoch=1))])
def test_a_producer_whose_transaction_timed_out_may_continue_in_version_2(
    version: int, answer: TransactionAnswer
) -> None:
    room = Room(transaction_version=version, abort_interval_ms=1)
    room.init()
    room.add(ORDERS)
    room.pass_ms(60_001)
    room.complete()
    assert room.init(100, 0) == answer


def test_a_producer_that_was_fenced_by_another_one_may_not_continue() -> None:
    room = Room()
    room.init()
    room.add(ORDERS)
    room.init()
    room.complete()
    room.init()
    assert room.init(100, 0) == FENCED
    assert room.init(100, 1) == FENCED


def test_a_producer_that_continues_may_repeat_its_request() -> None:
    room = Room()
    room.init()
    assert room.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1)
    assert room.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1), "its answer was lost"
    assert room.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1)
    assert room.init(100, 1) == TransactionAnswer(producer_id=100, epoch=2)
    assert room.init(100, 0) == FENCED
    assert room.init(100, 3) == FENCED
    assert room.init(99, 2) == FENCED


def test_a_producer_that_continues_after_a_takeover_is_fenced() -> None:
    room = Room()
    room.init()
    room.init(100, 0)
    assert room.init().epoch == 2
    assert room.init(100, 0) == FENCED
    assert room.init(100, 1) == FENCED


def test_continuing_with_an_unknown_transactional_id_creates_it() -> None:
    room = Room()
    assert room.init(55, 7) == TransactionAnswer(producer_id=100, epoch=0)


def test_continuing_after_a_lost_end_txn_response_uses_no_further_epoch() -> None:
    room = Room()
    room.init()
    room.add(ORDERS, version=2)
    room.end(commit=True, version=2)
    room.complete()
    assert room.init(100, 0) == TransactionAnswer(producer_id=100, epoch=1)
    assert room.init(100, 1) == TransactionAnswer(producer_id=100, epoch=2)


def test_the_last_epoch_is_reserved_for_fencing() -> None:
    room = Room()
    room.load(at_epoch(LAST_EPOCH - 1))
    assert room.init() == TransactionAnswer(producer_id=100, epoch=LAST_EPOCH)
    assert room.init() == TransactionAnswer(producer_id=100, epoch=0), "the room's first id, given out anew"
    assert room.known.previous_producer_id == 100


@pytest.mark.parametrize("epoch", [LAST_EPOCH, EPOCH_MAX])
def test_exhausted_epochs_lead_to_a_new_producer_id(epoch: int) -> None:
    room = Room()
    room.ids.next = 300
    room.load(at_epoch(epoch, state=TransactionState.COMPLETE_ABORT))
    assert room.init(100, epoch) == TransactionAnswer(producer_id=300, epoch=0)
    assert room.init(100, LAST_EPOCH - 1) == FENCED
    again = room.init(100, epoch)
    assert again == TransactionAnswer(producer_id=300, epoch=0), "its answer was lost"


def test_a_transaction_in_the_last_epoch_can_be_fenced() -> None:
    room = Room()
    room.ids.next = 300
    room.load(at_epoch(LAST_EPOCH, state=TransactionState.ONGOING))
    assert room.init() == BUSY
    assert room.known.epoch == EPOCH_MAX
    room.complete()
    assert room.init() == TransactionAnswer(producer_id=300, epoch=0)


def test_a_transaction_beyond_the_last_epoch_is_aborted() -> None:
    room = Room()
    room.load(at_epoch(EPOCH_MAX, state=TransactionState.ONGOING))
    assert room.init() == BUSY
    assert (room.known.state, room.known.epoch) == (TransactionState.PREPARE_ABORT, EPOCH_MAX)
