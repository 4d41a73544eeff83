"""The mutable state of the metadata, from which images are made.

Only `replay` writes here. Requests read the draft and see each other's effects before these are committed. `freeze`
turns the draft into an image without copying. After it, the first write to each table copies the table once. All
changes between two images thus cost one copy, however many topics a request creates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

from pykbroker.core.metadata.image import (
    EMPTY,
    TOPIC_RESOURCE,
    AclsImage,
    BrokerImage,
    ClusterImage,
    ConfigResourceKey,
    ConfigsImage,
    ControllerImage,
    Delta,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    ProducerIdsImage,
    RecordsImage,
    TopicImage,
    TopicsImage,
)
from pykbroker.core.metadata.partition_index import PartitionIndex
from pykbroker.core.metadata.shared_table import SharedTable
from pykbroker.core.names import collision_key
from pykbroker.core.security.acl.acl import acl_of
from wire.stored.metadata_security import AccessControlEntryRecord


class ImageDraft:
    """The tables of a `MetadataImage`, and the changes to them since the last image.

    With an `index`, which only the controller needs, the draft has the partitions of each broker, and the number of
    ids of each ACL.
    """

    def __init__(self, image: MetadataImage = EMPTY, index: PartitionIndex | None = None) -> None:
        self._frozen, self._index = image, index
        self.topics = SharedTable(image.topics.by_id)
        self.names = SharedTable(image.topics.by_name)
        self.brokers: SharedTable[int, BrokerImage] = SharedTable(image.cluster.brokers)
        self.controllers: SharedTable[int, ControllerImage] = SharedTable(image.cluster.controllers)
        self.configs = SharedTable(image.configs.resources)
        self.features = SharedTable(image.features.levels)
        self.next_producer_id = image.producer_ids.next_producer_id
        self.acls = SharedTable(image.acls.by_id)
        self.acl_counts = Counter(map(acl_of, self.acls.values()) if index is not None else ())
        self.records = SharedTable(image.records.by_key)
        self.unknown = list(image.records.unknown)
        self.offset = self.first_offset = image.offset  # of the record that is being applied
        self.partition_count = sum(len(topic.partitions) for topic in self.topics.values())
        self.registered_at: dict[int, int] = {}
        self.collisions = {key: name for name in self.names if (key := collision_key(name)) is not None}
        self._start_delta()

    def _start_delta(self) -> None:
        self._topics_changed: set[bytes] = set()
        self._topics_deleted: list[TopicImage] = []
        self._configs_changed: set[ConfigResourceKey] = set()
        self._brokers_changed: set[int] = set()

    def add_topic(self, name: str, topic_id: bytes) -> None:
        """Add a topic without partitions."""
        self._topics_changed.add(topic_id)
        self._put_topic(TopicImage(name, topic_id, {}))
        if (key := collision_key(name)) is not None:
            self.collisions[key] = name

    def remove_topic(self, topic_id: bytes) -> None:
        """Remove the topic, its partitions and its configs."""
        topic = self.topics.rows().pop(topic_id)
        self.partition_count -= len(topic.partitions)
        if self._index is not None:
            for number, partition in topic.partitions.items():
                self._index.update((topic_id, number), partition, None, self.offset)
        if self.names[topic.name].id == topic_id:
            del self.names.rows()[topic.name]
        self.collisions.pop(collision_key(topic.name) or "", None)
        self.configs.rows().pop((TOPIC_RESOURCE, topic.name), None)
        self._topics_changed.discard(topic_id)
        # No subscriber knows a topic that was created since the last image.
        if topic_id in self._frozen.topics.by_id:
            self._topics_deleted.append(self._frozen.topics.by_id[topic_id])

    def put_partition(self, topic_id: bytes, number: int, partition: PartitionImage) -> None:
        """Add a partition, or replace it."""
        partitions = self._partitions(topic_id)
        old = partitions.get(number)
        partitions[number] = partition
        self.partition_count += old is None
        if self._index is not None:
            self._index.update((topic_id, number), old, partition, self.offset)

    def _partitions(self, topic_id: bytes) -> dict[int, PartitionImage]:
        """Return the topic's partitions, which the caller may change until the next `freeze`."""
        topic = self.topics[topic_id]
        # The last image has this topic, so that the first change after it needs a copy.
        if topic_id not in self._topics_changed:
            self._topics_changed.add(topic_id)
            topic = TopicImage(topic.name, topic_id, dict(topic.partitions))
            self._put_topic(topic)
        return cast(dict[int, PartitionImage], topic.partitions)

    def _put_topic(self, topic: TopicImage) -> None:
        self.topics.rows()[topic.id] = topic
        self.names.rows()[topic.name] = topic

    def config(self, resource: ConfigResourceKey) -> Mapping[str, str]:
        """Return the configs that are set for a resource, or an empty mapping."""
        return self.configs.get(resource, {})

    def set_config(self, resource: ConfigResourceKey, name: str, value: str | None) -> None:
        """Set a config of a resource; None unsets it."""
        values = dict(self.config(resource))
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
        if values:
            self.configs.rows()[resource] = values
        else:
            self.configs.rows().pop(resource, None)
        self._configs_changed.add(resource)

    def forget_orphans(self) -> None:
        """Remove the configs of topics that do not exist."""
        for resource in [
            resource for resource in self.configs if resource[0] == TOPIC_RESOURCE and resource[1] not in self.names
        ]:
            del self.configs.rows()[resource]

    def registration_offset(self, broker_id: int) -> int:
        """Return the offset of the broker's registration. It is that of the last image if the log no longer has it."""
        return self.registered_at.get(broker_id, self.first_offset)

    def put_broker(self, broker: BrokerImage) -> None:
        """Add a broker, or replace its registration."""
        self.brokers.rows()[broker.id] = broker
        self._brokers_changed.add(broker.id)

    def remove_broker(self, broker_id: int) -> None:
        del self.brokers.rows()[broker_id]
        self._brokers_changed.add(broker_id)

    def put_acl(self, record: AccessControlEntryRecord) -> None:
        """Add an ACL, or replace that of its id."""
        self.remove_acl(record.id)
        self.acls.rows()[record.id] = record
        if self._index is not None:
            self.acl_counts[acl_of(record)] += 1

    def remove_acl(self, acl_id: bytes) -> None:
        """Remove the ACL if it exists."""
        if acl_id in self.acls:
            acl = acl_of(self.acls.rows().pop(acl_id))
            if self._index is not None:
                self.acl_counts[acl] -= 1
                if not self.acl_counts[acl]:
                    del self.acl_counts[acl]

    def freeze(self, offset: int, epoch: int, time_ms: int) -> Delta:
        """Return the image up to `offset`, and the changes since the last image. Both images share unchanged tables."""
        last = self._frozen
        topics, nodes = self.topics.changed or self.names.changed, self.brokers.changed or self.controllers.changed
        self._frozen = MetadataImage(
            offset=offset,
            epoch=epoch,
            time_ms=time_ms,
            features=FeaturesImage(self.features.share()) if self.features.changed else last.features,
            cluster=ClusterImage(self.brokers.share(), self.controllers.share()) if nodes else last.cluster,
            topics=TopicsImage(self.names.share(), self.topics.share()) if topics else last.topics,
            configs=ConfigsImage(self.configs.share()) if self.configs.changed else last.configs,
            producer_ids=ProducerIdsImage(self.next_producer_id),
            acls=AclsImage(self.acls.share()) if self.acls.changed else last.acls,
            records=RecordsImage(self.records.share(), self._all_unknown()),
        )
        delta = Delta(
            previous=last,
            image=self._frozen,
            topics_changed=frozenset(self._topics_changed),
            topics_deleted=tuple(self._topics_deleted),
            configs_changed=frozenset(self._configs_changed),
            brokers_changed=frozenset(self._brokers_changed),
        )
        self._start_delta()
        return delta

    def _all_unknown(self) -> tuple[bytes, ...]:
        known = self._frozen.records.unknown
        return known if len(known) == len(self.unknown) else tuple(self.unknown)
