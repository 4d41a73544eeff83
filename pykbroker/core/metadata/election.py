"""Leader election: the leader and the ISR of a partition after a broker was fenced or unfenced.

1. A leader remains leader if it may lead. Otherwise the first replica of the assignment that is in the ISR is elected;
   if the ISR is empty, the first replica in the ELR (KIP-966).
2. A replica that leaves an ISR smaller than the effective min.insync.replicas, which is at most the number of replicas,
   joins the ELR, because it has all committed records. A replica whose broker went down uncleanly does not, because it
   may have lost some.
3. Without a candidate in ISR and ELR, the last known leader is elected when it returns. If unclean election is allowed,
   any live replica is elected. The partition is then marked as recovering.
4. If eligible leader replicas are disabled, the last member of an ISR remains in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.metadata.replay import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from wire.sentinels import NO_LEADER
from wire.stored.metadata_topics import PartitionChangeRecord

Ids = tuple[int, ...]


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The configs and features that govern the election for one topic."""

    elr_enabled: bool
    min_isr: int
    unclean: bool = False


class ElectionResult(msgspec.Struct, frozen=True, gc=False):
    """The fields of a partition that an election decides."""

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
) -> ElectionResult:
    """Return the result of an election in a partition with the new ISR `isr`.

    `acceptable` returns whether a broker may lead. `lost` is the broker that went down uncleanly. With `prefer_first`,
    the first replica of the assignment, which is the preferred leader, replaces the current leader if it may lead.
    """
    elr = _eligible(partition, isr, rules, lost)
    in_order = (partition.leader, *partition.replicas)
    if prefer_first:
        in_order = (partition.replicas[0], *in_order)
    # A member of the ELR has all committed records: nothing is committed while the ISR is below min.insync.replicas
    # (KIP-966).
    leader = _first(in_order, lambda replica: replica in (isr or elr) and acceptable(replica))
    unclean = leader == NO_LEADER
    if unclean:
        leader = _last_resort(partition, isr, elr, acceptable, rules)
    if leader != NO_LEADER and leader not in isr:
        # The leader of an unclean election may lack records that the others have, so that no other replica is eligible.
        isr, elr = (leader,), () if unclean else _without(elr, leader)
    # Without ELR, only the ISR tells which replicas have all committed records. Its last members stay in it.
    if not isr and not rules.elr_enabled:
        isr = partition.isr
    recovering = partition.recovering or (unclean and leader != NO_LEADER)
    return ElectionResult(leader, isr, elr, _last_known(partition, leader, rules), recovering)


def _eligible(partition: PartitionImage, isr: Ids, rules: Rules, lost: int | None) -> Ids:
    if not rules.elr_enabled or len(isr) >= min(rules.min_isr, len(partition.replicas)):
        return ()
    candidates = dict.fromkeys(partition.elr + partition.isr)
    # After an unclean shutdown a broker may lack records that it had acknowledged.
    return tuple(replica for replica in candidates if replica not in isr and replica != lost)


def _last_resort(partition: PartitionImage, isr: Ids, elr: Ids, acceptable: Callable[[int], bool], rules: Rules) -> int:
    known = partition.last_known_elr
    # The last leader may lead even where unclean elections are forbidden: no other replica acknowledged more (KIP-966).
    if rules.elr_enabled and not isr and not elr and len(known) == 1 and acceptable(known[0]):
        return known[0]
    return _first(partition.replicas, acceptable) if rules.unclean else NO_LEADER


def _last_known(partition: PartitionImage, leader: int, rules: Rules) -> Ids:
    """Return the last known leader of a partition without a leader, if it still has a replica."""
    if not rules.elr_enabled or leader != NO_LEADER:
        return ()
    return (partition.leader,) if partition.leader in partition.replicas else partition.last_known_elr


def _first(candidates: Iterable[int], fits: Callable[[int], bool]) -> int:
    return next((candidate for candidate in candidates if fits(candidate)), NO_LEADER)


def _without(ids: Ids, removed: int) -> Ids:
    return tuple(member for member in ids if member != removed)


def change_record(
    topic_id: bytes, index: int, old: PartitionImage, new: ElectionResult
) -> PartitionChangeRecord | None:
    """Return the record that changes the partition to the result of an election, or None if nothing differs.

    A change of leader, also to no leader, bumps the leader epoch.
    """
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
