"""A machine that is loaded from the log equals the machine that wrote it, whatever producers request."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.core.txn.requests import MarkersWritten, TransactionAnswer
from pykbroker.core.txn.state import PREPARED
from pykbroker.core.txn.transaction import EPOCH_MAX, Transaction
from tests.unit.core.txn.room import LAST_EPOCH, NAME, ORDERS, PAYMENTS, Room, at_epoch
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


def take(room: Room, step: str, version: int, off: int) -> None:
    """Take one step of a producer whose epoch is wrong by `off`."""
    known = room.known
    who = {"producer_id": known.producer_id, "epoch": min(max(0, known.epoch + off), EPOCH_MAX)}
    if step == "init":
        room.init()
    elif step == "go on":
        room.init(**who)
    elif step == "add":
        room.add(ORDERS if off else PAYMENTS, version=version, **who)
    elif step in ("commit", "abort"):
        room.end(step == "commit", version=version, **who)
    elif step == "markers":
        room.ask(MarkersWritten(NAME, known.producer_id, known.epoch))
    elif step == "time":
        room.pass_ms(60_001)
    else:
        room.load()


@settings(deadline=None)
@given(EPOCHS, STEPS)
def test_a_machine_loaded_from_the_log_equals_the_one_that_wrote_it(
    epoch: int, steps: list[tuple[str, int, int]]
) -> None:
    room = Room(abort_interval_ms=1)
    room.ids.next = 200
    room.load(at_epoch(epoch))
    for step in steps:
        before = room.known
        take(room, *step)
        after = room.known
        check_progress(before, after)
        room.load()
        assert room.known == after
        finish(room)


def check_progress(before: Transaction, after: Transaction) -> None:
    """Check that epochs only rise until a new producer id begins with 0, and that partitions stay until completion."""
    if after.producer_id == before.producer_id:
        assert after.epoch >= before.epoch
    else:
        assert after.epoch == 0
    if after.state in PREPARED:
        assert after.partitions == before.partitions


def finish(room: Room) -> None:
    """Check that the marker writer gets the transaction exactly if it is decided and not complete."""
    writer = object()
    room.await_markers(writer)
    assert (writer in room.told) is (room.known.state in PREPARED)


@given(STEPS)
def test_a_fenced_producer_stays_fenced(steps: list[tuple[str, int, int]]) -> None:
    room = Room(abort_interval_ms=1)
    fenced = room.init()
    while room.init() == TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS):
        room.complete()
    room.init()
    for step in steps:
        take(room, *step)
        for version in (0, 2):
            refused = room.add(ORDERS, producer_id=fenced.producer_id, epoch=fenced.epoch, version=version)
            assert refused is ErrorCode.PRODUCER_FENCED
        assert room.end(commit=True, producer_id=fenced.producer_id, epoch=fenced.epoch).error_code is (
            ErrorCode.PRODUCER_FENCED
        )
