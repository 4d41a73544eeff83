"""The immutable state of the cluster at one offset of the metadata log.

An image and its mappings never change after they are published, so that any task may keep an image and compare it with
a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from pykbroker.core.config.live_config import Dynamic
from pykbroker.core.ids import LOST, MIGRATING, UNASSIGNED
from wire.stored.framing import FramedRecord
from wire.stored.metadata_security import AccessControlEntryRecord

R = TypeVar("R", bound=FramedRecord)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

ConfigResourceKey = tuple[int, str]
"""The type and name of a resource; (BROKER_RESOURCE, "") is the cluster-wide default of brokers."""

CLUSTER_DEFAULT: ConfigResourceKey = (BROKER_RESOURCE, "")

RecordKey = tuple[int, Any]
"""The type of a record, and its key among the records of that type."""


class PartitionImage(msgspec.Struct, frozen=True, gc=False):
    """A partition. `directories` has one entry for each of `replicas`.

    `elr` are the eligible leader replicas (KIP-966).
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False  # the leader was elected uncleanly and may lack committed records

    def directory(self, broker_id: int) -> bytes:
        """Return the directory id of a broker's replica, or UNASSIGNED if it is unknown."""
        return self.directories[self.replicas.index(broker_id)] if self.directories else UNASSIGNED


class TopicImage(msgspec.Struct, frozen=True, gc=False):
    """A topic; its partitions are numbered from 0 without gaps."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage] = {}


class TopicsImage(msgspec.Struct, frozen=True):
    """The topics, by name and by id."""

    by_name: Mapping[str, TopicImage] = {}
    by_id: Mapping[bytes, TopicImage] = {}

    def __len__(self) -> int:
        return len(self.by_name)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """Return the partition, or None if the topic or the partition does not exist."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """The address of a listener. `security_protocol` is a number of `SecurityProtocol`."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class NodeImage(msgspec.Struct, frozen=True, gc=False):
    """The fields that broker and controller registrations share. `features` is name -> lowest and highest level."""

    id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = {}

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of the listener, or None."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


class ControllerImage(NodeImage, frozen=True, gc=False):
    """A registered controller."""

    zk_migration_ready: bool = False


class BrokerImage(NodeImage, frozen=True, gc=False, kw_only=True):
    """A registered broker; `epoch` is the offset of its registration."""

    epoch: int
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned: tuple[bytes, ...] = ()  # directories that accept no new replicas (KIP-1066)

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown

    def is_online(self, directory_id: bytes) -> bool:
        """Whether the broker can serve replicas in this directory (KIP-858).

        The answer is true for a replica that has no directory yet, and for a broker that registered without
        directories.
        """
        if directory_id in (UNASSIGNED, MIGRATING):
            return True
        return directory_id != LOST and (not self.directories or directory_id in self.directories)

    @property
    def accepts_replicas(self) -> bool:
        """Whether the broker has a directory that is not cordoned (KIP-1066)."""
        return not self.directories or any(directory not in self.cordoned for directory in self.directories)

    @property
    def default_directory(self) -> bytes:
        """Return the directory of new replicas: the only one, or UNASSIGNED if the broker chooses among several.

        Return MIGRATING if the broker registered without directories.
        """
        if not self.directories:
            return MIGRATING
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED


class ClusterImage(msgspec.Struct, frozen=True):
    """The registered nodes, by id."""

    brokers: Mapping[int, BrokerImage] = {}
    controllers: Mapping[int, ControllerImage] = {}

    def active(self) -> Iterable[BrokerImage]:
        """Return the brokers that may lead partitions."""
        return (broker for broker in self.brokers.values() if broker.active)

    def electable(self, partition: PartitionImage) -> set[int]:
        """Return the members of a partition's ISR that may lead: they are active, and their directory is online."""
        return {
            member
            for member in partition.isr
            if (broker := self.brokers.get(member)) is not None
            and broker.active
            and broker.is_online(partition.directory(member))
        }


class ConfigsImage(msgspec.Struct, frozen=True):
    """The dynamic configs of all resources that have any. Default values are not included."""

    resources: Mapping[ConfigResourceKey, Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"ConfigsImage({len(self.resources)} resources)"

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configs that are set for a resource, or an empty mapping."""
        return self.resources.get((resource_type, name), {})

    def topic(self, name: str) -> Mapping[str, str]:
        return self.of(TOPIC_RESOURCE, name)

    def broker(self, node_id: int) -> Mapping[str, str]:
        return self.of(BROKER_RESOURCE, str(node_id))

    @property
    def cluster_default(self) -> Mapping[str, str]:
        """Return the configs that are set for all brokers."""
        return self.resources.get(CLUSTER_DEFAULT, {})

    def dynamic(self, node_id: int) -> Dynamic:
        """Return the dynamic configs that apply to a broker."""
        return Dynamic(self.cluster_default, self.broker(node_id))


class FeaturesImage(msgspec.Struct, frozen=True):
    """The finalized level of each feature."""

    levels: Mapping[str, int] = {}

    def level(self, name: str) -> int:
        """Return the finalized level of a feature, 0 if it is off."""
        return self.levels.get(name, 0)


class ProducerIdsImage(msgspec.Struct, frozen=True, gc=False):
    """The first producer id that no broker's block contains."""

    next_producer_id: int = 0


class AclsImage(msgspec.Struct, frozen=True):
    """The ACLs by id, as records, which keep the tagged fields of later versions."""

    by_id: Mapping[bytes, AccessControlEntryRecord] = {}


class RecordsImage(msgspec.Struct, frozen=True):
    """Records that the controller stores without using them: the last record of each key, and unknown records."""

    by_key: Mapping[RecordKey, FramedRecord] = {}
    unknown: tuple[bytes, ...] = ()

    def of(self, cls: type[R]) -> list[R]:
        """Return the records of one class, such as quotas, credentials or tokens."""
        return [record for record in self.by_key.values() if isinstance(record, cls)]


class MetadataImage(msgspec.Struct, frozen=True):
    """The whole metadata. `offset` is the offset of the last record, or -1; `epoch` is the quorum's leader epoch.

    `time_ms` is the append time of the last record, in ms since 1970.
    """

    offset: int = -1
    epoch: int = -1
    time_ms: int = -1
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigsImage = ConfigsImage()
    producer_ids: ProducerIdsImage = ProducerIdsImage()
    acls: AclsImage = AclsImage()
    records: RecordsImage = RecordsImage()


EMPTY = MetadataImage()


class Delta(msgspec.Struct, frozen=True):
    """The difference between two images. `topics_changed` are the ids of topics that were created or changed."""

    previous: MetadataImage
    image: MetadataImage
    topics_changed: frozenset[bytes] = frozenset()
    topics_deleted: tuple[TopicImage, ...] = ()  # the images before the deletion
    configs_changed: frozenset[ConfigResourceKey] = frozenset()
    brokers_changed: frozenset[int] = frozenset()

    @classmethod
    def since_nothing(cls, image: MetadataImage) -> Delta:
        """Return the difference between the empty image and this one."""
        return cls(
            EMPTY,
            image,
            frozenset(image.topics.by_id),
            (),
            frozenset(image.configs.resources),
            frozenset(image.cluster.brokers),
        )

    def then(self, later: Delta) -> Delta:
        """Return this difference combined with a later one.

        A topic that was created and deleted in between is in neither list.
        """
        known = self.previous.topics.by_id
        deleted = self.topics_deleted + tuple(topic for topic in later.topics_deleted if topic.id in known)
        return Delta(
            previous=self.previous,
            image=later.image,
            topics_changed=(self.topics_changed | later.topics_changed) - {topic.id for topic in later.topics_deleted},
            topics_deleted=deleted,
            configs_changed=self.configs_changed | later.configs_changed,
            brokers_changed=self.brokers_changed | later.brokers_changed,
        )
