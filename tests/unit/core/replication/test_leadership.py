"""Tests of the invariants of a partition leader under random appends, flushes and changes of the ISR."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.core.log.transactions import OpenTransactions
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.leadership import Leadership
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
        self.leadership, self.transactions = Leadership(), OpenTransactions()
        self.end_offset = self.durable_offset = 0
        self.epoch, self.isr_size, self.replica_count, self.min_isr = 0, 1, 1, 1
        self.flush_before_ack = False
        self.acknowledged = 0
        self.open: set[int] = set()

    def happen(self, event: str, first: object, second: object) -> None:
        with suppress(ApiError):
            getattr(self, event)(first, second)

    def append(self, count: int, acks_all: bool) -> None:
        self.leadership.require_leader()
        if acks_all:
            self.leadership.require_min_isr()
            assert self.isr_size >= min(self.min_isr, self.replica_count)
        self.end_offset += count
        self._advance()
        if acks_all and self.leadership.is_committed(self.end_offset):
            self.acknowledged = self.end_offset

    def flush(self, left: int, _: None) -> None:
        self.durable_offset = max(self.durable_offset, self.end_offset - left)
        self._advance()

    def lead(self, replica_count: int, isr_size: int) -> None:
        self.epoch += 1
        self.replica_count, self.isr_size = replica_count, min(isr_size, replica_count)
        placed = PartitionImage(tuple(range(replica_count)), tuple(range(self.isr_size)), 0, self.epoch, 0)
        self.leadership.lead(0, placed, self.end_offset, 0)
        self._advance()

    def resign(self, *_: None) -> None:
        self.epoch += 1
        self.leadership.resign(self.epoch)

    def configure(self, min_isr: int, flush_before_ack: bool) -> None:
        self.min_isr, self.flush_before_ack = min_isr, flush_before_ack
        self.leadership.configure(min_isr, 100, flush_before_ack=flush_before_ack)
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
        before = self.leadership.high_watermark
        self.leadership.refresh(self.end_offset, {}, 0, 0)
        rose = self.leadership.advance(self.end_offset, self.durable_offset)
        after = self.leadership.high_watermark
        assert rose == (after > before)
        assert not rose or (self.leadership.is_leader and self.isr_size == 1)
        assert not rose or not self.flush_before_ack or after <= self.durable_offset


@given(st.lists(EVENTS, max_size=30))
def test_the_last_stable_offset_never_exceeds_the_high_watermark_or_the_log_end(
    events: list[tuple[str, object, object]],
) -> None:
    history, high_watermark, stable = RandomPartition(), 0, 0
    for event in events:
        history.happen(*event)
        leadership = history.leadership
        assert high_watermark <= leadership.high_watermark <= history.end_offset
        high_watermark = leadership.high_watermark
        last_stable = history.transactions.last_stable_offset(high_watermark)
        assert stable <= last_stable <= high_watermark
        stable = last_stable
        assert leadership.upper_offset(stable, committed_only=True) == stable
        assert leadership.upper_offset(stable, committed_only=False) == high_watermark
        assert history.acknowledged <= high_watermark


@given(st.lists(EVENTS, max_size=30), st.integers(0, 40))
def test_acks_all_is_acknowledged_only_by_an_isr_of_the_minimum_size(
    events: list[tuple[str, object, object]], end_offset: int
) -> None:
    history = RandomPartition()
    for event in events:
        history.happen(*event)
    try:
        committed = history.leadership.is_committed(end_offset)
    except ApiError as error:
        assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert history.isr_size < min(history.min_isr, history.replica_count)
        assert end_offset <= history.leadership.high_watermark
    else:
        assert committed == (end_offset <= history.leadership.high_watermark)
        assert not committed or history.isr_size >= min(history.min_isr, history.replica_count)


@given(st.integers(0, 10), st.integers(0, 10), st.integers(1, 10), st.booleans())
def test_a_flush_is_due_after_flush_messages_or_before_each_acknowledgement(
    durable_offset: int, unflushed: int, flush_messages: int, flush_before_ack: bool
) -> None:
    leadership = Leadership()
    leadership.configure(1, flush_messages, flush_before_ack=flush_before_ack)
    due = unflushed >= (1 if flush_before_ack else flush_messages)
    assert leadership.flush_due(durable_offset + unflushed, durable_offset) == due


def of_leader(leadership: Leadership) -> tuple[bool, bool, bool]:
    return leadership.is_under_replicated, leadership.is_at_min_isr, leadership.is_reassigning


@given(COUNTS, COUNTS, COUNTS, st.booleans())
def test_a_leader_knows_whether_its_isr_lacks_replicas(
    replica_count: int, isr_size: int, min_isr: int, is_adding: bool
) -> None:
    isr_size = min(isr_size, replica_count)
    leadership, replicas = Leadership(), tuple(range(replica_count))
    leadership.configure(min_isr, 1, flush_before_ack=False)
    assert of_leader(leadership) == (False, False, False)
    adding = replicas[1:][-1:] if is_adding else ()
    leadership.lead(0, PartitionImage(replicas, replicas[:isr_size], 0, 1, 0, adding=adding), 0, 0)
    assert leadership.is_under_replicated == (isr_size < replica_count - len(adding))
    assert leadership.is_at_min_isr == (isr_size == min(min_isr, replica_count))
    assert leadership.is_under_min_isr == (isr_size < min(min_isr, replica_count))
    assert leadership.is_reassigning == bool(adding)
    leadership.resign(2)
    assert of_leader(leadership) == (False, False, False)
