"""A change of one partition: its assignment, ISR and directories, and the leader and epochs that follow from them.

1. A reassignment completes when all replicas that it adds are in the ISR, whatever became of the others (KIP-455). If
   it removes more replicas than it adds, all replicas that stay must be in the ISR.
2. Then the ELR and the leader follow (`election`).
3. The leader epoch is bumped if the leader changes or if a replica is removed. Up to metadata.version 3.5 it is also
   bumped if the ISR shrinks, because brokers of that time ignored a smaller ISR otherwise (KAFKA-15021).
4. Every change bumps the partition epoch, so that a partition that stays as it is gets no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import msgspec

from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerContext
from pykbroker.core.metadata.election import Ids, Rules, change_record, elect
from pykbroker.core.metadata.image import PartitionImage, TopicImage
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.replay import NO_LEADER_CHANGE
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicIdPartition
from wire.stored.metadata_topics import PartitionChangeRecord

SHRINK_KEEPS_EPOCH_LEVEL = 12  # 3.6-IV0


class ReplicaAssignment(msgspec.Struct, frozen=True):
    """The replicas of a partition, its ISR, and the replicas that a reassignment adds and removes."""

    replicas: Ids
    isr: Ids
    adding: Ids = ()
    removing: Ids = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> ReplicaAssignment:
        return cls(partition.replicas, partition.isr, partition.adding, partition.removing)


def change(
    context: ControllerContext,
    topic: TopicImage,
    index: int,
    target: ReplicaAssignment,
    rules: Rules,
    *,
    directories: Mapping[int, bytes] = {},
    lost: int | None = None,
    prefer_first: bool = False,
    recovered: bool = False,
) -> PartitionChangeRecord | None:
    """Return the record that changes a partition to `target`, or None if nothing changes.

    `directories` are new directories of replicas, by broker. `lost` is a broker that went down uncleanly. With
    `prefer_first` the preferred leader replaces the current one. `recovered` says that the leader has recovered from an
    unclean election.
    """
    old = topic.partitions[index]
    target = completed(target)
    gone = without(old.replicas, target.replicas)
    moved = msgspec.structs.replace(
        old,
        replicas=target.replicas,
        isr=without(old.isr, gone),
        elr=without(old.elr, gone),
        directories=_directories(context, old, target.replicas, directories),
        recovering=old.recovering and not recovered,
    )
    seats = elect(
        moved, target.isr, lambda replica: context.usable(moved, replica), rules, lost, prefer_first=prefer_first
    )
    unchanged = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
    record = change_record(topic.id, index, old, seats) or copy(unchanged)
    # A record that names a leader, even the same one, begins a leader epoch. It fences late fetches of a removed
    # replica.
    if record.leader == NO_LEADER_CHANGE and (gone or _shrink_bumps(context, old, seats.isr)):
        record.leader = old.leader
    if moved.replicas != old.replicas:
        record.replicas = list(moved.replicas)
    if moved.directories != old.directories:
        record.directories = list(moved.directories)
    if target.adding != old.adding:
        record.adding_replicas = list(target.adding)
    if target.removing != old.removing:
        record.removing_replicas = list(target.removing)
    return None if record == unchanged else record


def completed(target: ReplicaAssignment) -> ReplicaAssignment:
    """Return the final assignment if the reassignment is done, otherwise `target`."""
    if not (target.adding or target.removing):
        return target
    replicas, isr = without(target.replicas, target.removing), without(target.isr, target.removing)
    # If more replicas go than come, those that stay must be in sync as well: too few would be otherwise.
    awaited = target.adding if len(target.adding) >= len(target.removing) else replicas
    return ReplicaAssignment(replicas, isr) if isr and replicas and not without(awaited, isr) else target


def _directories(
    context: ControllerContext, old: PartitionImage, replicas: Ids, new: Mapping[int, bytes]
) -> tuple[bytes, ...]:
    if not (new or replicas != old.replicas):
        return old.directories
    return tuple(
        new.get(replica) or (old.directory(replica) if replica in old.replicas else context.default_directory(replica))
        for replica in replicas
    )


def _shrink_bumps(context: ControllerContext, old: PartitionImage, isr: Ids) -> bool:
    return context.feature(METADATA_FEATURE) < SHRINK_KEEPS_EPOCH_LEVEL and bool(without(old.isr, isr))


def repair(
    context: ControllerContext, topic: TopicImage, index: int, rules: Rules, lost: int | None = None
) -> PartitionChangeRecord | None:
    """Return the record after which only brokers that serve their replica are in the ISR, or None.

    If the partition has no leader and one can be elected now, the record elects it. `lost` is a broker that went down
    uncleanly: it leaves ISR and ELR.
    """
    partition = topic.partitions[index]
    isr = tuple(member for member in partition.isr if member != lost and context.usable(partition, member))
    target = msgspec.structs.replace(ReplicaAssignment.of(partition), isr=isr)
    return change(context, topic, index, target, rules, lost=lost)


def repairs(
    context: ControllerContext, keys: Iterable[TopicIdPartition], lost: int | None = None
) -> Steps[list[Record]]:
    """Return the records of `repair` for some partitions, one partition in each step."""
    records: list[Record] = []
    rules: dict[bytes, Rules] = {}
    for topic_id, index in keys:
        topic = context.draft.topics[topic_id]
        if topic_id not in rules:
            rules[topic_id] = context.rules(topic.name)
        record = repair(context, topic, index, rules[topic_id], lost)
        records += [record] if record is not None else []
        yield
    return records


def without(ids: Sequence[int], removed: Sequence[int]) -> Ids:
    """Return the ids without the removed ones."""
    return tuple(one for one in ids if one not in removed)
