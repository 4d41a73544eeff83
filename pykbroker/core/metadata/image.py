"""The truth about the cluster at one offset of the metadata log, frozen.

Topics, configs, brokers, features and the next producer id, as their records left them. An image and the mappings in it
never change after it was published, so anybody may keep one and compare it with a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from pykbroker.core.config.live_config import Dynamic
from pykbroker.core.metadata.ids import UNASSIGNED
from wire.stored.framing import FramedRecord

R = TypeVar("R", bound=FramedRecord)

NO_LEADER = -1
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

ConfigResourceKey = tuple[int, str]
"""Type and name; (BROKER_RESOURCE, "") are the defaults of all brokers."""

CLUSTER_DEFAULT: ConfigResourceKey = (BROKER_RESOURCE, "")

RecordKey = tuple[int, Any]
"""The type of a record, and what tells it from others of that type."""


class PartitionImage(msgspec.Struct, frozen=True, gc=False):
    """One partition. `directories` stand beside `replicas`; `elr` are the eligible leader replicas of KIP-966."""

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
    recovering: bool = False  # its leader was elected although it may lack committed records

    def directory(self, broker_id: int) -> bytes:
        """In which of its log directories a broker keeps its replica, as far as it has said."""
        return self.directories[self.replicas.index(broker_id)] if self.directories else UNASSIGNED


class TopicImage(msgspec.Struct, frozen=True, gc=False):
    """A topic; its partitions are numbered from 0 without a gap."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage] = {}


class TopicsImage(msgspec.Struct, frozen=True):
    """All topics, by either of their keys."""

    by_name: Mapping[str, TopicImage] = {}
    by_id: Mapping[bytes, TopicImage] = {}

    def __len__(self) -> int:
        return len(self.by_name)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """None where the topic or the partition does not exist."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """Where a listener is reached; `security_protocol` 0 is PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class NodeImage(msgspec.Struct, frozen=True, gc=False):
    """What brokers and controllers register alike; `features` are the versions supported: name -> (least, most)."""

    id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = {}

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of the listener with this name."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


class ControllerImage(NodeImage, frozen=True, gc=False):
    """A registered controller."""

    zk_migration_ready: bool = False


class BrokerImage(NodeImage, frozen=True, gc=False, kw_only=True):
    """A registered broker. Its `epoch` is the offset at which it registered."""

    epoch: int
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned: tuple[bytes, ...] = ()  # of its directories, those that take no new replica

    @property
    def active(self) -> bool:
        """Whether it may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def default_directory(self) -> bytes:
        """Where a new replica goes: known without asking only when there is one directory."""
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED


class ClusterImage(msgspec.Struct, frozen=True):
    """All registered nodes, by id."""

    brokers: Mapping[int, BrokerImage] = {}
    controllers: Mapping[int, ControllerImage] = {}

    def active(self) -> Iterable[BrokerImage]:
        """The brokers that may lead."""
        return (broker for broker in self.brokers.values() if broker.active)


class ConfigsImage(msgspec.Struct, frozen=True):
    """The configs that were set, for each resource that has any; defaults are not here."""

    resources: Mapping[ConfigResourceKey, Mapping[str, str]] = {}

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What is set for this resource; empty when nothing is."""
        return self.resources.get((resource_type, name), {})

    def topic(self, name: str) -> Mapping[str, str]:
        """What is set for a topic."""
        return self.of(TOPIC_RESOURCE, name)

    def broker(self, node_id: int) -> Mapping[str, str]:
        """What is set for one broker alone."""
        return self.of(BROKER_RESOURCE, str(node_id))

    @property
    def cluster_default(self) -> Mapping[str, str]:
        """What is set for all brokers."""
        return self.resources.get(CLUSTER_DEFAULT, {})

    def dynamic(self, node_id: int) -> Dynamic:
        """What a broker has been told since it started."""
        return Dynamic(self.cluster_default, self.broker(node_id))


class FeaturesImage(msgspec.Struct, frozen=True):
    """The finalized level of each feature."""

    levels: Mapping[str, int] = {}

    def level(self, name: str) -> int:
        """0 for a feature that is off."""
        return self.levels.get(name, 0)


class ProducerIdsImage(msgspec.Struct, frozen=True, gc=False):
    """The first producer id that no broker has been given."""

    next_producer_id: int = 0


class RecordsImage(msgspec.Struct, frozen=True):
    """What nobody here acts on, as it stands in the log: the last record of each key, and values of unknown types."""

    by_key: Mapping[RecordKey, FramedRecord] = {}
    unknown: tuple[bytes, ...] = ()

    def of(self, cls: type[R]) -> list[R]:
        """All records of one class: access control entries, quotas, credentials, tokens."""
        return [record for record in self.by_key.values() if isinstance(record, cls)]


class MetadataImage(msgspec.Struct, frozen=True):
    """All of it. `offset` is the last record contained, -1 when there is none; `epoch` that of the quorum's leader.

    `time_ms` is when the last record was appended, since 1970.
    """

    offset: int = -1
    epoch: int = -1
    time_ms: int = -1
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigsImage = ConfigsImage()
    producer_ids: ProducerIdsImage = ProducerIdsImage()
    records: RecordsImage = RecordsImage()


EMPTY = MetadataImage()


class Delta(msgspec.Struct, frozen=True):
    """What lies between two images; `topics_changed` are the ids of topics that were created or changed."""

    previous: MetadataImage
    image: MetadataImage
    topics_changed: frozenset[bytes] = frozenset()
    topics_deleted: tuple[TopicImage, ...] = ()  # as they were
    configs_changed: frozenset[ConfigResourceKey] = frozenset()
    brokers_changed: frozenset[int] = frozenset()

    @classmethod
    def since_nothing(cls, image: MetadataImage) -> Delta:
        """All that is in an image is new."""
        return cls(
            EMPTY,
            image,
            frozenset(image.topics.by_id),
            (),
            frozenset(image.configs.resources),
            frozenset(image.cluster.brokers),
        )

    def then(self, later: Delta) -> Delta:
        """Both as one. A topic that came and went in between is in neither list."""
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
