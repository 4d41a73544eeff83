"""Conversion between an image and the records of a snapshot.

Record types are in Kafka's order: features with metadata.version first, brokers, controllers, each topic with its
partitions, configs, quotas, producer ids, ACLs, credentials, tokens; unknown records are last. Within a type Kafka's
order is that of a hash table. Here topics are sorted by name and other records by key, so that equal images have equal
snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.image import (
    BrokerImage,
    ControllerImage,
    MetadataImage,
    NodeImage,
    PartitionImage,
    TopicImage,
)
from pykbroker.core.metadata.record import CORDONED_LEVEL, Record, UnknownRecord
from pykbroker.core.metadata.replay import apply
from pykbroker.core.outcome import Entry
from wire.stored.framing import FramedRecord
from wire.stored.metadata_brokers import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from wire.stored.metadata_security import DelegationTokenRecord, UserScramCredentialRecord
from wire.stored.metadata_settings import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from wire.stored.metadata_topics import PartitionRecord, TopicRecord

BEFORE_PRODUCER_IDS = (ClientQuotaRecord,)
AFTER_ACLS = (UserScramCredentialRecord, DelegationTokenRecord, ZkMigrationStateRecord)


def image_of(records: Iterable[Record], offset: int, epoch: int, time_ms: int) -> MetadataImage:
    """Return the image of a snapshot. Raise DamagedMetadata if a record contradicts another.

    Configs of topics that do not exist are dropped, since Kafka leaves such configs in its snapshots.
    """
    draft = ImageDraft()
    for place, record in enumerate(records):
        apply(draft, Entry(place, record))
    draft.forget_orphans()
    return draft.freeze(offset, epoch, time_ms).image


def snapshot_records(image: MetadataImage) -> Iterator[Record]:
    """Yield the records from which `image_of` restores the image."""
    level = image.features.level(METADATA_FEATURE)
    yield from _features(image)
    for _, broker in sorted(image.cluster.brokers.items()):
        yield _broker(broker, level)
    for _, controller in sorted(image.cluster.controllers.items()):
        yield _controller(controller)
    for _, topic in sorted(image.topics.by_name.items()):
        yield from _topic(topic)
    yield from _configs(image)
    yield from _standing(image, BEFORE_PRODUCER_IDS)
    if image.producer_ids.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.producer_ids.next_producer_id)
    for _, acl in sorted(image.acls.by_id.items()):
        yield acl
    yield from _standing(image, AFTER_ACLS)
    yield from map(UnknownRecord, image.records.unknown)


def _features(image: MetadataImage) -> Iterator[Record]:
    levels = image.features.levels
    for name in sorted(levels, key=lambda name: (name != METADATA_FEATURE, name)):
        yield FeatureLevelRecord(name=name, feature_level=levels[name])


def _broker(broker: BrokerImage, level: int) -> Record:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        rack=broker.rack,
        end_points=_parts(BrokerEndpoint, broker),
        features=_ranges(BrokerFeature, broker),
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned) if level >= CORDONED_LEVEL else None,
    )


def _controller(controller: ControllerImage) -> Record:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_parts(ControllerEndpoint, controller),
        features=_ranges(ControllerFeature, controller),
    )


def _parts(cls: type[Any], node: NodeImage) -> list[Any]:
    return [
        cls(name=endpoint.name, host=endpoint.host, port=endpoint.port, security_protocol=endpoint.security_protocol)
        for endpoint in node.endpoints
    ]


def _ranges(cls: type[Any], node: NodeImage) -> list[Any]:
    return [
        cls(name=name, min_supported_version=least, max_supported_version=most)
        for name, (least, most) in sorted(node.features.items())
    ]


def _topic(topic: TopicImage) -> Iterator[Record]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for index, partition in sorted(topic.partitions.items()):
        yield _partition(topic.id, index, partition)


def _partition(topic_id: bytes, index: int, partition: PartitionImage) -> Record:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=int(partition.recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _configs(image: MetadataImage) -> Iterator[Record]:
    for (resource_type, resource_name), values in sorted(image.configs.resources.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)


def _standing(image: MetadataImage, classes: tuple[type[FramedRecord], ...]) -> Iterator[Record]:
    by_key = image.records.by_key
    for cls in classes:
        for key in sorted(key for key in by_key if key[0] == cls.record_type):
            yield by_key[key]
