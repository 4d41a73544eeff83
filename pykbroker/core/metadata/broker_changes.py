"""The records of a broker that is fenced, unfenced, stops, loses a directory, or is unregistered.

1. The broker's own record comes first. The changes of its partitions follow from the state, by `partition_change`.
2. A broker that leaves loses its partitions in portions: the first with its own record, the others by `ControllerTasks`
   in later batches. Each batch is correct by itself, and a controller that starts continues where the last one stopped.
3. A broker that is unfenced is elected where nobody leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pykbroker.core.metadata.context import ControllerContext
from pykbroker.core.metadata.image import BrokerImage, PartitionImage
from pykbroker.core.metadata.partition_change import repairs
from pykbroker.core.metadata.record import Record
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicIdPartition
from wire.sentinels import NO_LEADER
from wire.stored.metadata_brokers import BrokerRegistrationChangeRecord, UnregisterBrokerRecord

PORTION_PARTITIONS = 500
"""The most partitions that one step without a pause changes, which takes some ms."""


def broker_record(old: BrokerImage, new: BrokerImage) -> Record | None:
    """Return the record that changes a registered broker, or None if nothing changes."""
    record = BrokerRegistrationChangeRecord(
        broker_id=old.id,
        broker_epoch=old.epoch,
        fenced=0 if new.fenced == old.fenced else 1 if new.fenced else -1,
        # A controlled shutdown is ended by the next registration only.
        in_controlled_shutdown=int(new.in_controlled_shutdown and not old.in_controlled_shutdown),
        log_dirs=[] if new.directories == old.directories else list(new.directories),
        cordoned_log_dirs=None if new.cordoned == old.cordoned else list(new.cordoned),
    )
    return None if record == BrokerRegistrationChangeRecord(broker_id=old.id, broker_epoch=old.epoch) else record


def change_broker(context: ControllerContext, old: BrokerImage, new: BrokerImage) -> Steps[list[Record]]:
    """Return the records that change a registered broker, and those of its first portion of partitions."""
    record = broker_record(old, new)
    if record is None:
        return []
    after = context.changing(old.id, new)
    partitions: Iterator[TopicIdPartition] = iter(())
    if not new.active or new.directories != old.directories:
        # The other partitions follow in portions, so that this decision does not block the loop: see `ControllerTasks`.
        partitions = islice(unserved(after, old.id), PORTION_PARTITIONS)
    elif not old.active:
        partitions = leaderless(after, old.id)
    return [record, *(yield from repairs(after, partitions))]


def unregister(context: ControllerContext, broker: BrokerImage) -> Steps[list[Record]]:
    """Return the records that remove a broker's registration, and its first portion of partitions from ISR and ELR.

    It leaves the ELR too, since its next registration cannot prove that it went down cleanly.
    """
    record = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    after = context.changing(broker.id, None)
    partitions = islice(everywhere(after, broker.id), PORTION_PARTITIONS)
    return [record, *(yield from repairs(after, partitions, lost=broker.id))]


def unserved(context: ControllerContext, broker_id: int) -> Iterator[TopicIdPartition]:
    """Yield the partitions that the broker does not serve although it is in their ISR.

    Without eligible leader replicas, the last members of an ISR stay in it, but do not lead. Such partitions are left
    out.
    """
    stays = not context.elr_enabled
    for key in context.index.isr[broker_id]:
        partition = _partition(context, key)
        if context.usable(partition, broker_id):
            continue
        if not stays or partition.leader != NO_LEADER or any(context.usable(partition, one) for one in partition.isr):
            yield key


def everywhere(context: ControllerContext, broker_id: int) -> Iterator[TopicIdPartition]:
    """Yield the partitions with the broker in their ISR, except as in `unserved`, or in their ELR."""
    yield from unserved(context, broker_id)
    yield from context.index.elr[broker_id]


def leaderless(context: ControllerContext, broker_id: int) -> Iterator[TopicIdPartition]:
    """Yield the partitions without a leader that have a replica on the broker."""
    return (key for key in context.index.led[NO_LEADER] if broker_id in _partition(context, key).replicas)


def _partition(context: ControllerContext, key: TopicIdPartition) -> PartitionImage:
    topic_id, number = key
    return context.draft.topics[topic_id].partitions[number]
