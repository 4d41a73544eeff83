"""Tests of transactions from begin to end in both transaction versions, compared with Kafka's own logs."""

from __future__ import annotations

import json
from itertools import product

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.log.producers import Marker
from pykbroker.core.outcome import Entry
from pykbroker.core.producer_epoch import EPOCH_MAX
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
from pykbroker.core.txn.transaction import Transaction, from_record
from tests.unit.core.txn.harness import (
    GOLDEN,
    LAST_EPOCH,
    NAME,
    NOW_MS,
    ORDERS,
    PAYMENTS,
    TransactionsHarness,
    at_epoch,
    golden_log,
)
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.stored.framing import encode_versioned
from wire.stored.transaction_log import TransactionLogKey, TransactionLogValue


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_1_keeps_its_epoch(commit: bool) -> None:
    harness = TransactionsHarness()
    assert harness.init() == TransactionAnswer(producer_id=100, epoch=0)
    assert harness.add(ORDERS) is ErrorCode.NONE
    assert harness.add(PAYMENTS) is ErrorCode.NONE
    assert harness.end(commit) == TransactionAnswer()
    harness.complete()
    assert harness.states == ([0, 1, 1, 2, 4] if commit else [0, 1, 1, 3, 5])
    assert harness.known.epoch == 0
    assert not harness.known.partitions
    assert harness.add(ORDERS) is ErrorCode.NONE, "the next transaction may begin"


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_2_bumps_the_epoch(commit: bool) -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS, version=2)
    assert harness.end(commit, version=2) == TransactionAnswer(producer_id=100, epoch=1)
    assert harness.known.epoch == 1, "the markers have the bumped epoch, too"
    harness.complete()
    assert harness.add(ORDERS, version=2) is ErrorCode.PRODUCER_FENCED, (
        "a late request with the old epoch does not join the next transaction"
    )
    assert harness.add(ORDERS, epoch=1, version=2) is ErrorCode.NONE


def test_adding_the_same_partitions_again_writes_no_record() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS, PAYMENTS)
    written = len(harness.log)
    assert harness.add(ORDERS) is ErrorCode.NONE
    assert len(harness.log) == written
    assert harness.known.started_ms == NOW_MS


def test_partitions_are_refused_for_unknown_fenced_and_concurrent_producers() -> None:
    harness = TransactionsHarness()
    assert harness.add(ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    harness.init()
    assert harness.add(ORDERS, producer_id=99) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.add(ORDERS, epoch=1) is ErrorCode.PRODUCER_FENCED
    harness.add(ORDERS)
    harness.end(commit=True)
    assert harness.add(ORDERS) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_returns_the_partitions_outside_of_the_transaction() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS)
    both = frozenset({ORDERS, PAYMENTS})
    assert harness.ask(VerifyPartitions(NAME, 100, 0, both), Verified).refused == {PAYMENTS}
    assert harness.ask(VerifyPartitions(NAME, 100, 0, frozenset({ORDERS})), Verified).refused == frozenset()
    assert harness.ask(VerifyPartitions(NAME, 99, 0, both)).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.ask(VerifyPartitions(NAME, 100, 1, both)).error_code is ErrorCode.PRODUCER_FENCED
    harness.end(commit=False)
    assert harness.ask(VerifyPartitions(NAME, 100, 0, both)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    harness.complete()
    assert harness.ask(VerifyPartitions(NAME, 100, 0, both), Verified).refused == both


@pytest.mark.parametrize(("state", "commit"), [*product(PREDECESSORS, [True, False])])
def test_the_result_of_end_txn_version_1_depends_on_the_state(state: TransactionState, commit: bool) -> None:
    harness = TransactionsHarness()
    harness.load(at_epoch(0, state=state, started_ms=NOW_MS))
    expected = VERSION_1.get((state, commit), ErrorCode.INVALID_TXN_STATE)
    assert harness.end(commit).error_code == (expected or ErrorCode.NONE)
    assert harness.states[1:] == ([] if expected is not None else [2 if commit else 3])


@pytest.mark.parametrize("epoch", [1, 3])
def test_end_txn_of_version_1_with_another_epoch_is_fenced(epoch: int) -> None:
    harness = TransactionsHarness()
    harness.load(at_epoch(2, state=TransactionState.ONGOING))
    assert harness.end(commit=True, epoch=epoch).error_code is ErrorCode.PRODUCER_FENCED
    assert harness.end(commit=True, epoch=2, producer_id=7).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(("state", "commit", "again"), [*product(PREDECESSORS, [True, False], [True, False])])
def test_the_result_of_end_txn_version_2_depends_on_the_state(
    state: TransactionState, commit: bool, again: bool
) -> None:
    harness = TransactionsHarness()
    harness.load(at_epoch(5, state=state, started_ms=NOW_MS, client_version=2))
    answer = harness.end(commit, epoch=4 if again else 5, version=2)
    expected = VERSION_2.get((state, commit, again), ErrorCode.INVALID_TXN_STATE)
    if state in PREPARED and not again:
        assert answer == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS), (
            "the markers of the previous transaction are not written yet"
        )
    elif state in (TransactionState.EMPTY, TransactionState.ONGOING) and again:
        assert answer == TransactionAnswer(ErrorCode.PRODUCER_FENCED)
    elif expected is None:
        assert answer == TransactionAnswer(producer_id=100, epoch=6)
        assert harness.states[1:] == [2 if commit else 3]
    else:
        assert answer == (
            TransactionAnswer(producer_id=100, epoch=5) if expected is ErrorCode.NONE else TransactionAnswer(expected)
        )
        assert harness.states[1:] == []


@pytest.mark.parametrize("epoch", [3, 6])
def test_end_txn_of_version_2_with_any_other_epoch_is_fenced(epoch: int) -> None:
    for state in PREDECESSORS:
        harness = TransactionsHarness()
        harness.load(at_epoch(5, state=state, client_version=2))
        assert harness.end(commit=False, epoch=epoch, version=2) == TransactionAnswer(ErrorCode.PRODUCER_FENCED), state
    assert harness.end(commit=False, producer_id=9, epoch=5, version=2) == TransactionAnswer(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert harness.ask(EndTransaction("nobody", 100, 5, True, 2)) == TransactionAnswer(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


@pytest.mark.parametrize("commit", [True, False])
def test_ending_a_transaction_in_the_last_epoch_returns_a_new_producer_id(commit: bool) -> None:
    harness = TransactionsHarness()
    harness.load(at_epoch(LAST_EPOCH, state=TransactionState.ONGOING, started_ms=NOW_MS))
    harness.ids.next = 200
    assert harness.end(commit, epoch=LAST_EPOCH, version=2) == TransactionAnswer(producer_id=200, epoch=0)
    assert (harness.known.producer_id, harness.known.epoch) == (100, EPOCH_MAX), (
        "the markers still have the old producer id"
    )
    assert harness.end(commit, epoch=LAST_EPOCH, version=2) == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert harness.end(commit=False, producer_id=200, version=2) == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert harness.add(ORDERS, producer_id=200, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.add(ORDERS, epoch=EPOCH_MAX, version=2) is ErrorCode.CONCURRENT_TRANSACTIONS, (
        "the epoch of the markers is refused until they are written"
    )
    assert harness.init(200, 0) == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    harness.complete()
    assert (harness.known.producer_id, harness.known.epoch, harness.known.previous_producer_id) == (200, 0, 100)
    again = harness.end(commit, epoch=LAST_EPOCH, version=2)
    assert again == TransactionAnswer(producer_id=200, epoch=0), (
        "a retry with the old producer id gets the same response"
    )
    harness.load()
    assert harness.end(commit, epoch=LAST_EPOCH, version=2) == again, "a retry gets the same response after a restart"


def test_end_txn_is_retriable_while_no_producer_id_is_available() -> None:
    harness = TransactionsHarness()
    harness.load(at_epoch(LAST_EPOCH, state=TransactionState.ONGOING))
    harness.ids.left = 0
    answer = harness.end(commit=True, epoch=LAST_EPOCH, version=2)
    assert answer == TransactionAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert harness.known.state is TransactionState.ONGOING


def test_markers_of_another_transaction_do_not_complete_this_one() -> None:
    harness = TransactionsHarness()
    harness.init()
    harness.add(ORDERS, version=2)
    assert harness.ask(MarkersWritten(NAME, 100, 0)) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    harness.end(commit=True, version=2)
    assert harness.ask(MarkersWritten(NAME, 100, 0)) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    assert harness.ask(MarkersWritten("nobody", 100, 0)) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    assert harness.ask(MarkersWritten(NAME, 100, 1)) == TransactionAnswer()
    assert harness.states[-1] == TransactionState.COMPLETE_COMMIT


def test_transactions_are_described_and_listed() -> None:
    harness = TransactionsHarness()
    assert harness.ask(FindTransaction(NAME)) == TransactionAnswer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    harness.init()
    assert harness.known == Transaction(NAME, 100, 60_000, 0, updated_ms=NOW_MS, previous_producer_id=100)
    assert harness.ask(FindTransactions(lambda one: one.epoch == 0), FoundTransactions).transactions == (harness.known,)
    assert harness.ask(FindTransactions(lambda one: one.epoch == 1), FoundTransactions).transactions == ()


def test_only_the_state_changes_in_the_table_are_possible() -> None:
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
def test_a_transaction_is_unchanged_after_it_is_written_and_read_in_every_version(
    transaction_version: int, log_version: int
) -> None:
    harness = TransactionsHarness(transaction_version)
    harness.init()
    harness.add(("a", 0))
    harness.end(True)
    harness.complete()
    for record in harness.log:
        assert isinstance(record, CoordinatorRecord)
        assert record.value is not None
        assert record.version == log_version
        assert encode_versioned(record.value, log_version)[:2] == log_version.to_bytes(2)
    harness.load()
    assert harness.known.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(("kind", "partition"), [*product(["clean", "unclean"], range(4))])
def test_kafkas_records_are_encoded_byte_for_byte_as_kafka_wrote_them(kind: str, partition: int) -> None:
    for record in golden_log(kind, partition):
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        record.value.transaction_partitions = (
            sorted(  # Kafka writes these in the order of a hash table.
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
def test_kafkas_log_results_in_kafkas_transaction_states(kind: str) -> None:
    found = {}
    for partition in range(4):
        harness = TransactionsHarness()
        harness.load(*golden_log(kind, partition))
        for known in harness.ask(FindTransactions(lambda _: True), FoundTransactions).transactions:
            found[known.transactional_id] = f"{known.producer_id} {known.state.title}"
    assert found == json.loads((GOLDEN / f"{kind}-expected.json").read_text())["transactions"]


@pytest.mark.parametrize(("kind", "partition"), [*product(["clean", "unclean"], range(4))])
def test_each_state_change_of_kafka_is_decided_in_the_same_way(kind: str, partition: int) -> None:
    """Decide each record of Kafka's log again, from the previous record and at Kafka's timestamp."""
    before: dict[str, Transaction] = {}
    for record in golden_log(kind, partition):
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        after = from_record(record.key, record.value)
        known = before.get(after.transactional_id, Transaction(after.transactional_id, after.producer_id, 0))
        assert after == step(known, after)
        before[after.transactional_id] = after


def step(known: Transaction, after: Transaction) -> Transaction:
    """Apply to `known` the request that made Kafka write the record `after`. Return the record of pykbroker."""
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
    harness = TransactionsHarness()
    harness.init()
    harness.machine.replay(Entry(9, Marker(100, 0, True, 0)))
    assert harness.known.state is TransactionState.EMPTY
