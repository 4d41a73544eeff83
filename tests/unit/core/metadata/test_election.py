"""Tests of leader elections: invariants that hold whichever brokers are alive."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.metadata.election import Rules, change_record, elect
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.metadata.replay import merge
from wire.sentinels import NO_LEADER
from wire.stored.metadata_topics import PartitionChangeRecord

REPLICAS = (1, 2, 3)
subsets = st.sets(st.sampled_from(REPLICAS))


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    """Return a strategy for partitions of three replicas, in states that an election can leave behind."""
    isr = tuple(sorted(draw(subsets)))
    elr = tuple(sorted(draw(subsets) - set(isr)))
    leader = draw(st.sampled_from((NO_LEADER, *isr)))
    known = (draw(st.sampled_from(REPLICAS)),) if not isr and draw(st.booleans()) else ()
    return PartitionImage(REPLICAS, isr, leader, 5, 9, elr=elr, last_known_elr=known)


rules = st.builds(Rules, elr_enabled=st.booleans(), min_isr=st.integers(1, 3), unclean=st.booleans())


@given(partitions(), subsets, subsets, rules, st.none() | st.sampled_from(REPLICAS))
def test_an_election_keeps_leader_isr_and_elr_consistent(
    old: PartitionImage, leaving: set[int], alive: set[int], rule: Rules, lost: int | None
) -> None:
    isr = tuple(member for member in old.isr if member not in leaving | {lost})
    new = elect(old, isr, (alive - {lost}).__contains__, rule, lost)
    assert new.leader == NO_LEADER or new.leader in alive - {lost}
    assert new.leader == NO_LEADER or new.leader in new.isr
    assert not set(new.isr) & set(new.elr)
    assert rule.elr_enabled or (new.elr, new.last_known_elr) == ((), ())
    clean = not new.recovering
    if clean and new.leader != NO_LEADER:
        assert new.leader in old.isr + old.elr  # A clean leader has all committed records.
    if old.leader in isr and old.leader in alive - {lost}:
        assert new.leader == old.leader


@given(st.sampled_from(REPLICAS), subsets)
def test_without_isr_and_elr_only_the_last_known_leader_is_elected(last: int, alive: set[int]) -> None:
    old = PartitionImage(REPLICAS, (), NO_LEADER, 5, 9, last_known_elr=(last,))
    new = elect(old, (), alive.__contains__, Rules(elr_enabled=True, min_isr=1))
    back = (last, (last,), (), True) if last in alive else (NO_LEADER, (), (last,), False)
    assert (new.leader, new.isr, new.last_known_elr, new.recovering) == back


@given(partitions(), subsets, rules)
def test_the_partition_change_record_has_exactly_the_changed_fields(
    old: PartitionImage, alive: set[int], rule: Rules
) -> None:
    seats = elect(old, old.isr, alive.__contains__, rule)
    record = change_record(bytes(16), 0, old, seats)
    new = old if record is None else merge(old, record)
    assert (new.leader, new.isr, new.elr, new.last_known_elr, new.recovering) == (
        seats.leader,
        seats.isr,
        seats.elr,
        seats.last_known_elr,
        seats.recovering,
    )
    assert new.leader_epoch == old.leader_epoch + (new.leader != old.leader)
    assert new.partition_epoch == old.partition_epoch + (record is not None)


def test_without_elr_the_last_member_of_the_isr_stays_in_it_and_can_lead_again() -> None:
    old = PartitionImage((1,), (1,), 1, 0, 0)
    rule = Rules(elr_enabled=False, min_isr=1)
    gone = elect(old, (), lambda replica: False, rule)
    assert (gone.leader, gone.isr, gone.recovering) == (NO_LEADER, (1,), False)
    left = msgspec.structs.replace(old, leader=gone.leader, leader_epoch=1)
    back = elect(left, left.isr, lambda replica: True, rule)
    assert (back.leader, back.isr, back.recovering) == (1, (1,), False)


def test_merging_a_reassignment_leaves_other_fields_unchanged() -> None:
    old = PartitionImage((1,), (1,), 1, 3, 4, directories=(b"a" * 16,), elr=(2,))
    new = merge(old, PartitionChangeRecord(replicas=[1, 2], adding_replicas=[2], directories=[b"a" * 16, b"b" * 16]))
    assert new == msgspec.structs.replace(
        old, replicas=(1, 2), adding=(2,), directories=(b"a" * 16, b"b" * 16), partition_epoch=5
    )
