"""The effect of each metadata record on the state: a table with one function for each record type.

A function raises LookupError if its record refers to a topic or broker that does not exist: the log is then damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec

from pykbroker.core.ids import MIGRATING
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.image import BrokerImage, ControllerImage, Endpoint, PartitionImage
from pykbroker.core.metadata.record import Record, UnknownRecord
from pykbroker.core.metadata.standing import KEYS, REMOVALS, remove, store
from pykbroker.core.outcome import Entry
from wire.stored.metadata_brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from wire.stored.metadata_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from wire.stored.metadata_settings import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from wire.stored.metadata_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

T = TypeVar("T")

NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
"""The values with which a PartitionChangeRecord leaves the leader, and the state of its recovery, as they are."""
EVERY_TOPIC = ""


class DamagedMetadata(Exception):
    """The error for a record that contradicts earlier records. The broker must not continue."""


def apply(draft: ImageDraft, entry: Entry[Record]) -> None:
    """Apply a record to the draft. Raise DamagedMetadata if the record contradicts the state."""
    change = REPLAY.get(type(entry.value))
    if change is None:
        return
    draft.offset = entry.offset
    try:
        change(draft, entry.value)
    except LookupError as error:
        raise DamagedMetadata(
            f"{type(entry.value).__name__} at offset {entry.offset} contradicts what came before it: {error}"
        ) from error


def _topic(draft: ImageDraft, record: TopicRecord) -> None:
    draft.add_topic(record.name, record.topic_id)


def _remove_topic(draft: ImageDraft, record: RemoveTopicRecord) -> None:
    draft.remove_topic(record.topic_id)


def _partition(draft: ImageDraft, record: PartitionRecord) -> None:
    partition = PartitionImage(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=tuple(record.directories) or (MIGRATING,) * len(record.replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
        recovering=record.leader_recovery_state == 1,
    )
    draft.put_partition(record.topic_id, record.partition_id, partition)


def _partition_change(draft: ImageDraft, record: PartitionChangeRecord) -> None:
    old = draft.topics[record.topic_id].partitions[record.partition_id]
    draft.put_partition(record.topic_id, record.partition_id, merge(old, record))


def merge(old: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """Return the partition after the change. A null field is unchanged. Every change increments the partition epoch."""
    moved = change.leader != NO_LEADER_CHANGE
    recovery = change.leader_recovery_state
    return PartitionImage(
        replicas=_or(change.replicas, old.replicas),
        isr=_or(change.isr, old.isr),
        leader=change.leader if moved else old.leader,
        leader_epoch=old.leader_epoch + moved,
        partition_epoch=old.partition_epoch + 1,
        directories=_directories(old, change),
        elr=_or(change.eligible_leader_replicas, old.elr),
        last_known_elr=_or(change.last_known_elr, old.last_known_elr),
        adding=_or(change.adding_replicas, old.adding),
        removing=_or(change.removing_replicas, old.removing),
        recovering=old.recovering if recovery == NO_RECOVERY_CHANGE else recovery == 1,
    )


def _directories(old: PartitionImage, change: PartitionChangeRecord) -> tuple[bytes, ...]:
    if change.directories is not None:
        return tuple(change.directories)
    if change.replicas is None:
        return old.directories
    return tuple(old.directory(replica) if replica in old.replicas else MIGRATING for replica in change.replicas)


def _or(new: list[T] | None, old: tuple[T, ...]) -> tuple[T, ...]:
    return old if new is None else tuple(new)


def _clear_elr(draft: ImageDraft, record: ClearElrRecord) -> None:
    topics = list(draft.names.values()) if record.topic_name == EVERY_TOPIC else [draft.names[record.topic_name]]
    for topic in topics:
        for index, partition in list(topic.partitions.items()):
            if partition.elr or partition.last_known_elr:
                cleared = msgspec.structs.replace(partition, elr=(), last_known_elr=())
                draft.put_partition(topic.id, index, cleared)


def _config(draft: ImageDraft, record: ConfigRecord) -> None:
    draft.set_config((record.resource_type, record.resource_name), record.name, record.value)


def _feature_level(draft: ImageDraft, record: FeatureLevelRecord) -> None:
    if record.feature_level:
        draft.features.rows()[record.name] = record.feature_level
    else:
        draft.features.rows().pop(record.name, None)


def _producer_ids(draft: ImageDraft, record: ProducerIdsRecord) -> None:
    draft.next_producer_id = record.next_producer_id


def _acl(draft: ImageDraft, record: AccessControlEntryRecord) -> None:
    draft.put_acl(record)


def _remove_acl(draft: ImageDraft, record: RemoveAccessControlEntryRecord) -> None:
    draft.remove_acl(record.id)


def _register_broker(draft: ImageDraft, record: RegisterBrokerRecord) -> None:
    draft.registered_at[record.broker_id] = draft.offset
    draft.put_broker(
        BrokerImage(
            id=record.broker_id,
            incarnation_id=record.incarnation_id,
            epoch=record.broker_epoch,
            endpoints=_endpoints(record.end_points),
            features=_ranges(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(sorted(record.log_dirs)),
            cordoned=tuple(record.cordoned_log_dirs or ()),
        )
    )


def _register_controller(draft: ImageDraft, record: RegisterControllerRecord) -> None:
    draft.controllers.rows()[record.controller_id] = ControllerImage(
        id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record.end_points),
        features=_ranges(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def _unregister_broker(draft: ImageDraft, record: UnregisterBrokerRecord) -> None:
    _registered(draft, record.broker_id, record.broker_epoch)
    draft.remove_broker(record.broker_id)


def _broker_change(draft: ImageDraft, record: BrokerRegistrationChangeRecord) -> None:
    broker = _registered(draft, record.broker_id, record.broker_epoch)
    draft.put_broker(
        msgspec.structs.replace(
            broker,
            fenced=_switched(record.fenced, broker.fenced),
            in_controlled_shutdown=_switched(record.in_controlled_shutdown, broker.in_controlled_shutdown),
            directories=tuple(sorted(record.log_dirs)) or broker.directories,
            cordoned=_or(record.cordoned_log_dirs, broker.cordoned),
        )
    )


def _switched(change: int, now: bool) -> bool:
    """Return the new state of an on/off field: `change` is -1 for off, 1 for on, 0 for unchanged."""
    return change > 0 if change else now


def _fence_broker(draft: ImageDraft, record: FenceBrokerRecord) -> None:
    draft.put_broker(msgspec.structs.replace(_registered(draft, record.id, record.epoch), fenced=True))


def _unfence_broker(draft: ImageDraft, record: UnfenceBrokerRecord) -> None:
    draft.put_broker(msgspec.structs.replace(_registered(draft, record.id, record.epoch), fenced=False))


def _unknown(draft: ImageDraft, record: UnknownRecord) -> None:
    """Keep an unknown record. All such records are kept, since their keys are unknown too."""
    draft.unknown.append(record.value)


def _registered(draft: ImageDraft, broker_id: int, epoch: int) -> BrokerImage:
    broker = draft.brokers[broker_id]
    if broker.epoch != epoch:
        raise LookupError(f"broker {broker_id} is registered with epoch {broker.epoch}, not {epoch}")
    return broker


class _EndpointRecord(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _FeatureRecord(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def _endpoints(records: Iterable[_EndpointRecord]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(record.name, record.host, record.port, record.security_protocol) for record in records)


def _ranges(records: Iterable[_FeatureRecord]) -> dict[str, tuple[int, int]]:
    return {record.name: (record.min_supported_version, record.max_supported_version) for record in records}


REPLAY: dict[type, Callable[[ImageDraft, Any], None]] = {
    TopicRecord: _topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition_change,
    ClearElrRecord: _clear_elr,
    ConfigRecord: _config,
    FeatureLevelRecord: _feature_level,
    ProducerIdsRecord: _producer_ids,
    AccessControlEntryRecord: _acl,
    RemoveAccessControlEntryRecord: _remove_acl,
    RegisterBrokerRecord: _register_broker,
    RegisterControllerRecord: _register_controller,
    UnregisterBrokerRecord: _unregister_broker,
    BrokerRegistrationChangeRecord: _broker_change,
    FenceBrokerRecord: _fence_broker,
    UnfenceBrokerRecord: _unfence_broker,
    UnknownRecord: _unknown,
    **dict.fromkeys(KEYS, store),
    **dict.fromkeys(REMOVALS, remove),
}
