"""Who leads a partition after a broker came or went, and who stays in its ISR.

1. A leader keeps its place while it may. Otherwise the first replica in order of preference that is in the ISR leads;
   when the ISR is empty, the first that is eligible (KIP-966).
2. Replicas that leave an ISR smaller than min.insync.replicas stay eligible: they hold all that was committed. One that
   went down uncleanly may have lost some of it, and does not.
3. With nobody eligible the last leader is taken when it comes back, else anybody where unclean election is allowed;
   the partition is then marked as recovering.
4. Where eligible leader replicas are off, the last member of an ISR stays in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pykbroker.core.metadata.image import NO_LEADER, PartitionImage
from pykbroker.core.metadata.replay import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from wire.stored.metadata_topics import PartitionChangeRecord

Ids = tuple[int, ...]


class Rules(msgspec.Struct, frozen=True, gc=False):
    """What applies to one topic."""

    elr_enabled: bool
    min_isr: int
    unclean: bool = False


class Seats(msgspec.Struct, frozen=True, gc=False):
    """What an election decides about a partition."""

    leader: int
    isr: Ids
    elr: Ids
    last_known_elr: Ids
    recovering: bool


def elect(
    partition: PartitionImage,
    isr: Ids,
    acceptable: Callable[[int], bool],
    rules: Rules,
    lost: int | None = None,
    *,
    prefer_first: bool = False,
) -> Seats:
    """The seats of a partition whose ISR is to be `isr`; `acceptable` brokers may lead, `lost` went down uncleanly.

    `prefer_first`: the leader gives way to the first replica, the preferred leader, where that one may lead.
    """
    elr = _eligible(partition, isr, rules, lost)
    in_order = (partition.leader, *partition.replicas)
    if prefer_first:
        in_order = (partition.replicas[0], *in_order)
    leader = _first(in_order, lambda replica: replica in (isr or elr) and acceptable(replica))
    unclean = leader == NO_LEADER
    if unclean:
        leader = _last_resort(partition, isr, elr, acceptable, rules)
    if leader != NO_LEADER and leader not in isr:
        isr, elr = (leader,), () if unclean else _without(elr, leader)
    if not isr and not rules.elr_enabled:
        isr = partition.isr
    recovering = partition.recovering or (unclean and leader != NO_LEADER)
    return Seats(leader, isr, elr, _last_known(partition, leader, isr, rules), recovering)


def _eligible(partition: PartitionImage, isr: Ids, rules: Rules, lost: int | None) -> Ids:
    if not rules.elr_enabled or len(isr) >= rules.min_isr:
        return ()
    candidates = dict.fromkeys(partition.elr + partition.isr)
    return tuple(replica for replica in candidates if replica not in isr and replica != lost)


def _last_resort(partition: PartitionImage, isr: Ids, elr: Ids, acceptable: Callable[[int], bool], rules: Rules) -> int:
    known = partition.last_known_elr
    if rules.elr_enabled and not isr and not elr and len(known) == 1 and acceptable(known[0]):
        return known[0]
    return _first(partition.replicas, acceptable) if rules.unclean else NO_LEADER


def _last_known(partition: PartitionImage, leader: int, isr: Ids, rules: Rules) -> Ids:
    if not rules.elr_enabled or leader != NO_LEADER:
        return ()
    left = not isr and partition.leader != NO_LEADER
    return (partition.leader,) if left else partition.last_known_elr


def _first(candidates: Iterable[int], fits: Callable[[int], bool]) -> int:
    return next((candidate for candidate in candidates if fits(candidate)), NO_LEADER)


def _without(ids: Ids, removed: int) -> Ids:
    return tuple(member for member in ids if member != removed)


def change_record(topic_id: bytes, index: int, old: PartitionImage, new: Seats) -> PartitionChangeRecord | None:
    """The record of what differs; None when nothing does. A new leader, also none, is a new leader epoch."""
    if (old.leader, old.isr, old.elr, old.last_known_elr, old.recovering) == (
        new.leader,
        new.isr,
        new.elr,
        new.last_known_elr,
        new.recovering,
    ):
        return None
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=None if new.isr == old.isr else list(new.isr),
        leader=NO_LEADER_CHANGE if new.leader == old.leader else new.leader,
        leader_recovery_state=NO_RECOVERY_CHANGE if new.recovering == old.recovering else int(new.recovering),
        eligible_leader_replicas=None if new.elr == old.elr else list(new.elr),
        last_known_elr=None if new.last_known_elr == old.last_known_elr else list(new.last_known_elr),
    )
