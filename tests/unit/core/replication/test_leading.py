"""Tests of the invariants of a partition leader under random appends, flushes and changes of the ISR."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.core.log.transactions import OpenTransactions
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.isr_change import IsrAnswer
from pykbroker.core.replication.leading import Leading
from pykbroker.core.replication.role import Role, require_leading
from wire.error_codes import ErrorCode

COUNTS = st.integers(1, 3)
EVENTS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5), st.booleans()),
    st.tuples(st.just("flush"), st.integers(0, 5), st.none()),
    st.tuples(st.just("lead"), COUNTS, COUNTS),
    st.tuples(st.just("resign"), st.none(), st.none()),
    st.tuples(st.just("configure"), COUNTS, st.booleans()),
    st.tuples(st.just("begin"), st.integers(0, 3), st.none()),
    st.tuples(st.just("decide"), st.integers(0, 3), st.booleans()),
)


class RandomPartition:
    """A partition with random events, and the offsets of its log."""

    def __init__(self) -> None:
        self.role: Role = Following()
        self.high_watermark, self.transactions = 0, OpenTransactions()
        self.end_offset = self.durable_offset = 0
        self.epoch, self.isr_size, self.replica_count, self.min_isr = 0, 1, 1, 1
        self.flush_before_ack = False
        self.acknowledged = 0
        self.open: set[int] = set()

    def happen(self, event: str, first: object, second: object) -> None:
        with suppress(ApiError):
            getattr(self, event)(first, second)

    def append(self, count: int, acks_all: bool) -> None:
        leading = require_leading(self.role)
        if acks_all:
            leading.require_min_isr()
            assert self.isr_size >= min(self.min_isr, self.replica_count)
        self.end_offset += count
        self._advance()
        if acks_all and leading.is_committed(self.end_offset, self.high_watermark):
            self.acknowledged = self.end_offset

    def flush(self, left: int, _: None) -> None:
        self.durable_offset = max(self.durable_offset, self.end_offset - left)
        self._advance()

    def lead(self, replica_count: int, isr_size: int) -> None:
        self.epoch += 1
        self.replica_count, self.isr_size = replica_count, min(isr_size, replica_count)
        placed = PartitionImage(tuple(range(replica_count)), tuple(range(self.isr_size)), 0, self.epoch, 0)
        self.role = Leading(0, placed, self.end_offset, 0)
        self.configure(self.min_isr, self.flush_before_ack)

    def resign(self, *_: None) -> None:
        self.epoch += 1
        self.role = Following(self.epoch)

    def configure(self, min_isr: int, flush_before_ack: bool) -> None:
        self.min_isr, self.flush_before_ack = min_isr, flush_before_ack
        if isinstance(self.role, Leading):
            self.role.configure(min_isr, flush_before_ack=flush_before_ack)
        self._advance()

    def begin(self, producer_id: int, _: None) -> None:
        if producer_id not in self.open:
            self.open.add(producer_id)
            self.transactions.begin(producer_id, self.end_offset)
            self.append(1, acks_all=False)

    def decide(self, producer_id: int, aborted: bool) -> None:
        if producer_id in self.open:
            self.open.remove(producer_id)
            self.transactions.decide(producer_id, self.end_offset, aborted)
            self.append(1, acks_all=False)

    def _advance(self) -> None:
        if isinstance(self.role, Leading):
            self.role.refresh(self.end_offset, {}, 0, 0)
            committed = self.role.committed(self.end_offset, self.durable_offset)
            if committed > self.high_watermark:
                self.high_watermark = committed
                assert self.isr_size == 1
                assert not self.flush_before_ack or committed <= self.durable_offset


@given(st.lists(EVENTS, max_size=30))
def test_the_last_stable_offset_never_exceeds_the_high_watermark_or_the_log_end(
    events: list[tuple[str, object, object]],
) -> None:
    history, high_watermark, stable = RandomPartition(), 0, 0
    for event in events:
        history.happen(*event)
        assert high_watermark <= history.high_watermark <= history.end_offset
        high_watermark = history.high_watermark
        last_stable = history.transactions.last_stable_offset(high_watermark)
        assert stable <= last_stable <= high_watermark
        stable = last_stable
        assert history.acknowledged <= high_watermark


@given(st.lists(EVENTS, max_size=30), st.integers(0, 40))
def test_acks_all_is_acknowledged_only_by_an_isr_of_the_minimum_size(
    events: list[tuple[str, object, object]], end_offset: int
) -> None:
    history = RandomPartition()
    for event in events:
        history.happen(*event)
    if isinstance(history.role, Following):
        return
    try:
        committed = history.role.is_committed(end_offset, history.high_watermark)
    except ApiError as error:
        assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert history.isr_size < min(history.min_isr, history.replica_count)
        assert end_offset <= history.high_watermark
    else:
        assert committed == (end_offset <= history.high_watermark)
        assert not committed or history.isr_size >= min(history.min_isr, history.replica_count)


@given(COUNTS, COUNTS, COUNTS, st.booleans())
def test_a_leader_knows_whether_its_isr_lacks_replicas(
    replica_count: int, isr_size: int, min_isr: int, is_adding: bool
) -> None:
    isr_size = min(isr_size, replica_count)
    replicas = tuple(range(replica_count))
    adding = replicas[1:][-1:] if is_adding else ()
    leading = Leading(0, PartitionImage(replicas, replicas[:isr_size], 0, 1, 0, adding=adding), 0, 0)
    leading.configure(min_isr, flush_before_ack=False)
    assert leading.is_under_replicated == (isr_size < replica_count - len(adding))
    assert leading.is_at_min_isr == (isr_size == min(min_isr, replica_count))
    assert leading.is_under_min_isr == (isr_size < min(min_isr, replica_count))
    assert leading.is_reassigning == bool(adding)


def test_metadata_that_follows_its_answer_ends_a_reassignment_and_no_later_change() -> None:
    active = {1: 10, 2: 20, 3: 30}
    leading = Leading(1, PartitionImage((1, 2, 3), (1, 2), 1, 5, 7, adding=(3,)), 0, 0)
    leading.followers[3].note_fetch(0, 0, 0, 30, 0)
    change = leading.grown(3, 0, active, 10)
    assert change is not None
    leading.settle(change, IsrAnswer(ErrorCode.NONE, 5, 8, (1, 2, 3)))
    assert (leading.is_reassigning, leading.replication_factor) == (True, 2)
    later = leading.shrunk(1, 1000, 100, 10)
    assert not leading.apply(PartitionImage((1, 2, 3), (1, 2, 3), 1, 5, 8))
    assert (leading.is_reassigning, leading.replication_factor) == (False, 3)
    assert leading.pending is later is not None
