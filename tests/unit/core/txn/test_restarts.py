"""Tests of restarts: after random requests, the replayed log gives the same transactions as before the restart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.core.producer_epoch import EPOCH_MAX
from pykbroker.core.txn.requests import MarkersWritten, TransactionAnswer
from pykbroker.core.txn.state import PREPARED
from pykbroker.core.txn.transaction import Transaction
from tests.unit.core.txn.harness import LAST_EPOCH, NAME, ORDERS, PAYMENTS, TransactionsHarness, at_epoch
from wire.error_codes import ErrorCode

EPOCHS = st.sampled_from((0, LAST_EPOCH - 2, LAST_EPOCH))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("init", "go on", "add", "commit", "abort", "markers", "time", "restart")),
        st.sampled_from((0, 2)),
        st.integers(-1, 1),
    ),
    max_size=30,
)


def take(harness: TransactionsHarness, step: str, version: int, off: int) -> None:
    """Run one step of a producer whose epoch is wrong by `off`."""
    known = harness.known
    who = {"producer_id": known.producer_id, "epoch": min(max(0, known.epoch + off), EPOCH_MAX)}
    if step == "init":
        harness.init()
    elif step == "go on":
        harness.init(**who)
    elif step == "add":
        harness.add(ORDERS if off else PAYMENTS, version=version, **who)
    elif step in ("commit", "abort"):
        harness.end(step == "commit", version=version, **who)
    elif step == "markers":
        harness.ask(MarkersWritten(NAME, known.producer_id, known.epoch))
    elif step == "time":
        harness.pass_ms(60_001)
    else:
        harness.load()


@settings(deadline=None)
@given(EPOCHS, STEPS)
def test_a_restart_restores_exactly_the_same_transactions(epoch: int, steps: list[tuple[str, int, int]]) -> None:
    harness = TransactionsHarness(abort_interval_ms=1)
    harness.ids.next = 200
    harness.load(at_epoch(epoch))
    for step in steps:
        before = harness.known
        take(harness, *step)
        after = harness.known
        check_progress(before, after)
        harness.load()
        assert harness.known == after
        finish(harness)


def check_progress(before: Transaction, after: Transaction) -> None:
    """Check that an epoch only rises until a new producer id starts at 0, and that partitions stay until completion."""
    if after.producer_id == before.producer_id:
        assert after.epoch >= before.epoch
    else:
        assert after.epoch == 0
    if after.state in PREPARED:
        assert after.partitions == before.partitions


def finish(harness: TransactionsHarness) -> None:
    """Check that the marker writer gets exactly the prepared transactions whose markers are incomplete."""
    writer = object()
    harness.await_markers(writer)
    assert (writer in harness.replies) is (harness.known.state in PREPARED)


@given(STEPS)
def test_a_fenced_producer_stays_fenced_after_a_restart(steps: list[tuple[str, int, int]]) -> None:
    harness = TransactionsHarness(abort_interval_ms=1)
    fenced = harness.init()
    while harness.init() == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS):
        harness.complete()
    harness.init()
    for step in steps:
        take(harness, *step)
        for version in (0, 2):
            refused = harness.add(ORDERS, producer_id=fenced.producer_id, epoch=fenced.epoch, version=version)
            assert refused is ErrorCode.PRODUCER_FENCED
        assert harness.end(commit=True, producer_id=fenced.producer_id, epoch=fenced.epoch).error_code is (
            ErrorCode.PRODUCER_FENCED
        )
