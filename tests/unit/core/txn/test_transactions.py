"""Transactions from beginning to end, in both transaction versions, and compared with Kafka's own logs."""

from __future__ import annotations

import json
from itertools import product

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.log.producers import Marker
from pykbroker.core.outcome import Entry
from pykbroker.core.txn.ending import VERSION_1, VERSION_2
from pykbroker.core.txn.requests import (
    EndTransaction,
    FindTransaction,
    FindTransactions,
    FoundTransactions,
    MarkersWritten,
    TransactionAnswer,
    Verified,
    VerifyPartitions,
)
from pykbroker.core.txn.state import AT_REST, PREDECESSORS, PREPARED, TransactionState
from pykbroker.core.txn.transaction import EPOCH_MAX, Transaction, from_record
from tests.unit.core.txn.room import GOLDEN, LAST_EPOCH, NAME, NOW_MS, ORDERS, PAYMENTS, Room, at_epoch, golden_log
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.stored.framing import encode_versioned
from wire.stored.transaction_log import TransactionLogKey, TransactionLogValue


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_1_keeps_its_epoch(commit: bool) -> None:
    room = Room()
    assert room.init() == TransactionAnswer(producer_id=100, epoch=0)
    assert room.add(ORDERS) is ErrorCode.NONE
    assert room.add(PAYMENTS) is ErrorCode.NONE
    assert room.end(commit) == TransactionAnswer()
    room.complete()
    assert room.states == ([0, 1, 1, 2, 4] if commit else [0, 1, 1, 3, 5])
    assert room.known.epoch == 0
    assert not room.known.partitions
    assert room.add(ORDERS) is ErrorCode.NONE, "the next one"


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_2_gives_the_next_one_its_epoch(commit: bool) -> None:
    room = Room()
    room.init()
    room.add(ORDERS, version=2)
    assert room.end(commit, version=2) == TransactionAnswer(producer_id=100, epoch=1)
    assert room.known.epoch == 1, "its markers bear it too"
    room.complete()
    assert room.add(ORDERS, version=2) is ErrorCode.PRODUCER_FENCED, "what comes late is not of the next one"
    assert room.add(ORDERS, epoch=1, version=2) is ErrorCode.NONE


def test_adding_the_same_partitions_again_writes_no_record() -> None:
    room = Room()
    room.init()
    room.add(ORDERS, PAYMENTS)
    written = len(room.log)
    assert room.add(ORDERS) is ErrorCode.NONE
    assert len(room.log) == written
    assert room.known.started_ms == NOW_MS


def test_partitions_of_unknown_fenced_and_early_producers_are_refused() -> None:
    room = Room()
    assert room.add(ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    room.init()
    assert room.add(ORDERS, producer_id=99) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert room.add(ORDERS, epoch=1) is ErrorCode.PRODUCER_FENCED
    room.add(ORDERS)
    room.end(commit=True)
    assert room.add(ORDERS) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_returns_the_partitions_outside_of_the_transaction() -> None:
    room = Room()
    room.init()
    room.add(ORDERS)
    both = frozenset({ORDERS, PAYMENTS})
    assert room.ask(VerifyPartitions(NAME, 100, 0, both), Verified).refused == {PAYMENTS}
    assert room.ask(VerifyPartitions(NAME, 100, 0, frozenset({ORDERS})), Verified).refused == frozenset()
    assert room.ask(VerifyPartitions(NAME, 99, 0, both)).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert room.ask(VerifyPartitions(NAME, 100, 1, both)).error_code is ErrorCode.PRODUCER_FENCED
    room.end(commit=False)
    assert room.ask(VerifyPartitions(NAME, 100, 0, both)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    room.complete()
    assert room.ask(VerifyPartitions(NAME, 100, 0, both), Verified).refused == both


@pytest.mark.parametrize(("state", "commit"), [*product(PREDECESSORS, [True, False])])
def test_end_txn_of_version_1_follows_its_table(state: TransactionState, commit: bool) -> None:
    room = Room()
    room.load(at_epoch(0, state=state, started_ms=NOW_MS))
    wanted = VERSION_1.get((state, commit), ErrorCode.INVALID_TXN_STATE)
    assert room.end(commit).error_code == (wanted or ErrorCode.NONE)
    assert room.states[1:] == ([] if wanted is not None else [2 if commit else 3])


@pytest.mark.parametrize("epoch", [1, 3])
def test_end_txn_of_version_1_with_another_epoch_is_fenced(epoch: int) -> None:
    room = Room()
    room.load(at_epoch(2, state=TransactionState.ONGOING))
    assert room.end(commit=True, epoch=epoch).error_code is ErrorCode.PRODUCER_FENCED
    assert room.end(commit=True, epoch=2, producer_id=7).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(("state", "commit", "again"), [*product(PREDECESSORS, [True, False], [True, False])])
def test_end_txn_of_version_2_follows_its_table(state: TransactionState, commit: bool, again: bool) -> None:
    room = Room()
    room.load(at_epoch(5, state=state, started_ms=NOW_MS, client_version=2))
    answer = room.end(commit, epoch=4 if again else 5, version=2)
    wanted = VERSION_2.get((state, commit, again), ErrorCode.INVALID_TXN_STATE)
    if state in PREPARED and not again:
        assert answer == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS), (
            "the markers of the last one are not written"
        )
    elif state in (TransactionState.EMPTY, TransactionState.ONGOING) and again:
        assert answer == TransactionAnswer(ErrorCode.PRODUCER_FENCED)
    elif wanted is None:
        assert answer == TransactionAnswer(producer_id=100, epoch=6)
        assert room.states[1:] == [2 if commit else 3]
    else:
        assert answer == (
            TransactionAnswer(producer_id=100, epoch=5) if wanted is ErrorCode.NONE else TransactionAnswer(wanted)
        )
        assert room.states[1:] == []


@pytest.mark.parametrize("epoch", [3, 6])
def test_end_txn_of_version_2_with_any_other_epoch_is_fenced(epoch: int) -> None:
    for state in PREDECESSORS:
        room = Room()
        room.load(at_epoch(5, state=state, client_version=2))
        assert room.end(commit=False, epoch=epoch, version=2) == TransactionAnswer(ErrorCode.PRODUCER_FENCED), state
    assert room.end(commit=False, producer_id=9, epoch=5, version=2) == TransactionAnswer(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert room.ask(EndTransaction("nobody", 100, 5, True, 2)) == TransactionAnswer(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_producer_id_follows_the_last_epoch(commit: bool) -> None:
    room = Room()
    room.load(at_epoch(LAST_EPOCH, state=TransactionState.ONGOING, started_ms=NOW_MS))
    room.ids.next = 200
    assert room.end(commit, epoch=LAST_EPOCH, version=2) == TransactionAnswer(producer_id=200, epoch=0)
    assert (room.known.producer_id, room.known.epoch) == (100, EPOCH_MAX), "the markers are still of the old one"
    assert room.end(commit, epoch=LAST_EPOCH, version=2) == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert room.end(commit=False, producer_id=200, version=2) == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert room.add(ORDERS, producer_id=200, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.add(ORDERS, epoch=EPOCH_MAX, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS, "the markers' own epoch"
    assert room.init(200, 0) == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    room.complete()
    assert (room.known.producer_id, room.known.epoch, room.known.previous_producer_id) == (200, 0, 100)
    again = room.end(commit, epoch=LAST_EPOCH, version=2)
    assert again == TransactionAnswer(producer_id=200, epoch=0), "whoever lost the answer asks with the old id"
    room.load()
    assert room.end(commit, epoch=LAST_EPOCH, version=2) == again, "also after a restart"


def test_end_txn_is_retriable_while_no_producer_id_is_available() -> None:
    room = Room()
    room.load(at_epoch(LAST_EPOCH, state=TransactionState.ONGOING))
    room.ids.left = 0
    answer = room.end(commit=True, epoch=LAST_EPOCH, version=2)
    assert answer == TransactionAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert room.known.state is TransactionState.ONGOING


def test_markers_of_another_transaction_do_not_complete_this_one() -> None:
    room = Room()
    room.init()
    room.add(ORDERS, version=2)
    assert room.ask(MarkersWritten(NAME, 100, 0)) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    room.end(commit=True, version=2)
    assert room.ask(MarkersWritten(NAME, 100, 0)) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    assert room.ask(MarkersWritten("nobody", 100, 0)) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    assert room.ask(MarkersWritten(NAME, 100, 1)) == TransactionAnswer()
    assert room.states[-1] == TransactionState.COMPLETE_COMMIT


def test_transactions_are_found_and_listed() -> None:
    room = Room()
    assert room.ask(FindTransaction(NAME)) == TransactionAnswer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    room.init()
    assert room.known == Transaction(NAME, 100, 60_000, 0, updated_ms=NOW_MS, previous_producer_id=100)
    assert room.ask(FindTransactions(lambda one: one.epoch == 0), FoundTransactions).transactions == (room.known,)
    assert room.ask(FindTransactions(lambda one: one.epoch == 1), FoundTransactions).transactions == ()


def test_no_state_is_entered_from_a_state_outside_of_the_table() -> None:
    known = Transaction(NAME, 1, 1, 0, TransactionState.PREPARE_COMMIT)
    with pytest.raises(AssertionError, match="from PrepareCommit to Ongoing"):
        known.extended(frozenset(), 0, NOW_MS)
    assert {state for state in TransactionState if state not in PREDECESSORS} == {
        TransactionState.DEAD,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
    assert frozenset.union(*PREDECESSORS.values()) == AT_REST | PREPARED | {TransactionState.ONGOING}


def test_a_record_with_a_state_that_is_never_stored_is_refused() -> None:
    for status in (-1, TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        with pytest.raises(DecodeError):
            from_record(TransactionLogKey(NAME), TransactionLogValue(transaction_status=status))


@pytest.mark.parametrize(("transaction_version", "log_version"), [(0, 0), (1, 1), (2, 1)])
def test_a_transaction_survives_its_record_in_every_version(transaction_version: int, log_version: int) -> None:
    room = Room(transaction_version)
    room.init()
    room.add(("a", 0))
    room.end(True)
    room.complete()
    for record in room.log:
        assert isinstance(record, CoordinatorRecord)
        assert record.value is not None
        assert record.version == log_version
        assert encode_versioned(record.value, log_version)[:2] == log_version.to_bytes(2)
    room.load()
    assert room.known.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(("kind", "partition"), [*product(["clean", "unclean"], range(4))])
def test_kafkas_records_are_written_back_byte_for_byte(kind: str, partition: int) -> None:
    for record in golden_log(kind, partition):
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        record.value.transaction_partitions = (
            sorted(  # Kafka's are in the order of a hash table
                record.value.transaction_partitions, key=lambda part: part.topic
            )
            if record.value.transaction_partitions is not None
            else None
        )
        ours = from_record(record.key, record.value).record(2)
        assert ours.key == record.key
        assert ours.value is not None
        assert encode_versioned(ours.value, ours.version) == encode_versioned(record.value, 1)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_kafkas_log_leads_to_kafkas_states(kind: str) -> None:
    found = {}
    for partition in range(4):
        room = Room()
        room.load(*golden_log(kind, partition))
        for known in room.ask(FindTransactions(lambda _: True), FoundTransactions).transactions:
            found[known.transactional_id] = f"{known.producer_id} {known.state.title}"
    assert found == json.loads((GOLDEN / f"{kind}-expected.json").read_text())["transactions"]


@pytest.mark.parametrize(("kind", "partition"), [*product(["clean", "unclean"], range(4))])
def test_each_of_kafkas_transitions_is_decided_alike(kind: str, partition: int) -> None:
    """Decide each of Kafka's records anew from the previous one, at Kafka's timestamp."""
    before: dict[str, Transaction] = {}
    for record in golden_log(kind, partition):
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        after = from_record(record.key, record.value)
        known = before.get(after.transactional_id, Transaction(after.transactional_id, after.producer_id, 0))
        assert after == step(known, after)
        before[after.transactional_id] = after


def step(known: Transaction, after: Transaction) -> Transaction:
    """Return our successor of `known` for the request that led Kafka to `after`."""
    now_ms, version = after.updated_ms, after.client_version
    if after.state is TransactionState.EMPTY:
        return known.renewed(known.producer_id, known.epoch + 1, after.timeout_ms, now_ms)
    if after.state is TransactionState.ONGOING:
        return known.extended(after.partitions - known.partitions, version, now_ms)
    if after.state in PREPARED:
        return known.ended(
            commit=after.state is TransactionState.PREPARE_COMMIT,
            client_version=version,
            next_producer_id=-1,
            wall_ms=now_ms,
        )
    return known.completed(now_ms)


def test_records_of_other_types_are_ignored() -> None:
    room = Room()
    room.init()
    room.machine.replay(Entry(9, Marker(100, 0, True, 0)))
    assert room.known.state is TransactionState.EMPTY
