"""Transcripts of transactions in the last epochs of a producer id, as Apache Kafka 4.3.1 writes them.

An epoch has 16 bits. The end of a transaction of version 2 in epoch 32,766 has epoch 32,767 in its markers, and the
producer goes on with a new producer id and epoch 0. Kafka was asked for 32,765 and 32,766. It lets no producer have
32,767, but a log may have a transaction in it: then its end must still reach the readers of committed records.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.log.producers import Marker, Producers
from pykbroker.core.txn.requests import TransactionAnswer
from pykbroker.core.txn.state import TransactionState
from pykbroker.core.txn.transaction import Transaction
from tests.unit.core.txn.harness import NOW_MS, ORDERS, TransactionsHarness, at_epoch
from wire.error_codes import ErrorCode
from wire.frame import encode_request
from wire.messages.end_txn import EndTxnResponse
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from wire.stored.framing import encode_versioned
from wire.stored.transaction_log import TransactionLogValue

INTERVAL_MS, MINUTE_MS = 10_000, 60_000
BUSY = TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
FENCED = TransactionAnswer(ErrorCode.PRODUCER_FENCED)


def begun(epoch: int, version: int) -> TransactionsHarness:
    """Return a harness with an open transaction of this epoch. The next producer id is 200."""
    harness = TransactionsHarness(version, abort_interval_ms=INTERVAL_MS)
    harness.load(at_epoch(epoch))
    assert harness.add(ORDERS, epoch=epoch, version=version if version == 2 else 0) is ErrorCode.NONE
    harness.ids.next = 200
    return harness


def time_out(harness: TransactionsHarness) -> None:
    harness.pass_ms(MINUTE_MS + INTERVAL_MS)


def take_over(harness: TransactionsHarness) -> None:
    assert harness.init() == BUSY


def commit(harness: TransactionsHarness) -> None:
    epoch = harness.known.epoch
    assert harness.end(commit=True, epoch=epoch, version=harness.known.client_version).error_code is ErrorCode.NONE


def transcript(harness: TransactionsHarness) -> list[str]:
    """Return the records since the transaction began: state, producer id and epoch, and the ids before and after."""
    found = []
    for record in harness.log[2:]:
        assert isinstance(record, CoordinatorRecord)
        value = record.value
        assert isinstance(value, TransactionLogValue)
        assert encode_versioned(value, record.version)
        found.append(
            f"{TransactionState(value.transaction_status).title} {value.producer_id} {value.producer_epoch}"
            f" after {value.previous_producer_id} before {value.next_producer_id} in {value.client_transaction_version}"
        )
    return found


def write_marker(harness: TransactionsHarness, opened_in: int) -> None:
    """Write the marker of the decided transaction to its partition, from which committed records can be read then."""
    log, decided = Producers(), harness.known
    verification = log.begin_verification(100, opened_in, 0, NOW_MS)
    log.check(100, opened_in, 0, 0, True, verification)
    log.remember(100, opened_in, 0, 0, 0, NOW_MS, True)
    is_commit = decided.state is TransactionState.PREPARE_COMMIT
    marker = Marker(decided.producer_id, decided.epoch, is_commit, 0, decided.client_version)
    topics = [WritableTxnMarkerTopic(ORDERS.topic, [ORDERS.partition])]
    asked = WritableTxnMarker(marker.producer_id, marker.producer_epoch, marker.commit, topics)
    assert encode_request(WriteTxnMarkersRequest([asked]), 1, 1, "marker")
    log.check_marker(marker)
    log.remember_marker(
        marker.producer_id, marker.producer_epoch, 0, 1, NOW_MS, not is_commit, marker.transaction_version
    )
    assert log.transactions.last_stable_offset(2) == 2
    harness.complete()


ENDS: dict[str, Callable[[TransactionsHarness], None]] = {"time-out": time_out, "takeover": take_over, "commit": commit}

VERSION_2_TRANSCRIPTS = {
    (32765, "time-out"): ["PrepareAbort 100 32766 after 100 before -1", "CompleteAbort 100 32766 after 100 before -1"],
    (32765, "takeover"): ["PrepareAbort 100 32766 after 100 before -1", "CompleteAbort 100 32766 after 100 before -1"],
    (32765, "commit"): ["PrepareCommit 100 32766 after 100 before -1", "CompleteCommit 100 32766 after 100 before -1"],
    (32766, "time-out"): ["PrepareAbort 100 32767 after 100 before 200", "CompleteAbort 200 0 after 100 before -1"],
    (32766, "takeover"): ["PrepareAbort 100 32767 after 100 before 200", "CompleteAbort 200 0 after 100 before -1"],
    (32766, "commit"): ["PrepareCommit 100 32767 after 100 before 200", "CompleteCommit 200 0 after 100 before -1"],
    (32767, "time-out"): ["PrepareAbort 100 32767 after 100 before 200", "CompleteAbort 200 0 after 100 before -1"],
    (32767, "takeover"): ["PrepareAbort 100 32767 after 100 before 200", "CompleteAbort 200 0 after 100 before -1"],
    (32767, "commit"): ["PrepareCommit 100 32767 after 100 before 200", "CompleteCommit 200 0 after 100 before -1"],
}


@pytest.mark.parametrize(("epoch", "end"), VERSION_2_TRANSCRIPTS)
def test_the_end_of_a_transaction_of_version_2_takes_a_new_producer_id_after_the_last_epoch(
    epoch: int, end: str
) -> None:
    harness = begun(epoch, 2)
    ENDS[end](harness)
    write_marker(harness, epoch)
    assert transcript(harness) == [f"{line} in 2" for line in VERSION_2_TRANSCRIPTS[epoch, end]]
    known = harness.known
    assert harness.add(ORDERS, producer_id=known.producer_id, epoch=known.epoch, version=2) is ErrorCode.NONE
    ended = harness.end(commit=True, producer_id=known.producer_id, epoch=known.epoch, version=2)
    assert EndTxnResponse(0, ended.error_code, ended.producer_id, ended.epoch).producer_epoch == ended.epoch
    assert (ended.error_code, ended.epoch) == (ErrorCode.NONE, 1 if known.producer_id == 200 else 0)


VERSION_1_TRANSCRIPTS = {
    (32765, "time-out"): ["PrepareAbort 100 32766 after 100 before -1", "CompleteAbort 100 32766 after 100 before -1"],
    (32766, "time-out"): ["PrepareAbort 100 32767 after 100 before -1", "CompleteAbort 100 32767 after 100 before -1"],
    (32766, "takeover"): ["PrepareAbort 100 32767 after 100 before -1", "CompleteAbort 100 32767 after 100 before -1"],
    (32767, "time-out"): ["PrepareAbort 100 32767 after 100 before -1", "CompleteAbort 100 32767 after 100 before -1"],
    (32766, "commit"): ["PrepareCommit 100 32766 after 100 before -1", "CompleteCommit 100 32766 after 100 before -1"],
}


@pytest.mark.parametrize(("epoch", "end"), VERSION_1_TRANSCRIPTS)
def test_a_producer_of_version_1_gets_a_new_producer_id_from_init_producer_id(epoch: int, end: str) -> None:
    harness = begun(epoch, 1)
    ENDS[end](harness)
    write_marker(harness, epoch)
    assert transcript(harness) == [f"{line} in 0" for line in VERSION_1_TRANSCRIPTS[epoch, end]]
    assert harness.init() == TransactionAnswer(producer_id=200, epoch=0)
    assert transcript(harness)[2:] == ["Empty 200 0 after 100 before -1 in 0"]


def test_a_producer_that_timed_out_in_the_last_epoch_continues_with_the_new_producer_id() -> None:
    harness = begun(32766, 2)
    time_out(harness)
    assert harness.init(100, 32766) == BUSY
    write_marker(harness, 32766)
    assert harness.end(commit=True, epoch=32766, version=2) == TransactionAnswer(ErrorCode.INVALID_TXN_STATE)
    assert harness.init(100, 32766) == TransactionAnswer(producer_id=200, epoch=0)
    assert transcript(harness)[2:] == ["Empty 200 0 after 200 before -1 in 2"]


def test_a_producer_that_was_taken_over_in_the_last_epoch_is_fenced() -> None:
    harness = begun(32766, 2)
    take_over(harness)
    write_marker(harness, 32766)
    assert harness.init() == TransactionAnswer(producer_id=200, epoch=1)
    assert harness.init(100, 32766) == FENCED


@pytest.mark.parametrize("epoch", [32766, 32767])
def test_without_a_producer_id_an_abort_waits_for_the_next_tick(epoch: int) -> None:
    harness = begun(epoch, 2)
    harness.ids.left = 0
    time_out(harness)
    assert harness.known.state is TransactionState.ONGOING
    assert harness.init() == TransactionAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    harness.ids.left = 1
    harness.pass_ms(INTERVAL_MS - 1)
    assert harness.known.state is TransactionState.ONGOING
    harness.pass_ms(1)
    assert transcript(harness) == ["PrepareAbort 100 32767 after 100 before 200 in 2"]


def test_transactions_that_need_no_producer_id_are_aborted_before_one_that_waits() -> None:
    harness = begun(32766, 2)
    harness.load(Transaction("other", 7, MINUTE_MS, 5, TransactionState.ONGOING, started_ms=NOW_MS).record(2))
    harness.ids.left = 0
    time_out(harness)
    assert [line.split(" after")[0] for line in transcript(harness)[1:]] == ["PrepareAbort 7 6"]
