"""A client's view of a cluster: its brokers, topics, partitions and leaders.

1. A `Cluster` is frozen. Newer information yields another `Cluster`, so that a caller can keep one view for as long as
   a decision needs it.
2. The leader of a partition never goes back to an older leader epoch of the same topic id (KIP-320). A partition of a
   recreated topic starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from wire.declare import NIL
from wire.error_codes import INVALID_METADATA
from wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from wire.sentinels import NO_LEADER_EPOCH

RELIABLE_EPOCH_VERSION = 9
"""The first version of Metadata with reliable leader epochs. Brokers of Kafka 2.3 may return stale ones."""

Retains = Callable[[str, bytes, bool], bool]
"""A function of a topic's name, its id, and whether it is internal: whether the view keeps the topic."""


class ClusterBroker(msgspec.Struct, frozen=True):
    """A broker of the cluster. Bootstrap addresses, whose node ids are unknown, have the node ids -1, -2, and so on."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @classmethod
    def of(cls, node: Any) -> ClusterBroker:
        """Return the broker that a response of Metadata, or of Produce or Fetch (KIP-951), describes."""
        return cls(node.node_id, node.host, node.port, node.rack)


class ClusterPartition(msgspec.Struct, frozen=True):
    """A partition. `leader` is None while the partition has no leader. `leader_epoch` is -1 if it is unknown."""

    index: int
    leader: int | None
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: int = 0


class ClusterTopic(msgspec.Struct, frozen=True):
    """A topic. `partitions` is sorted by index. A topic whose `error` is not 0 has no partitions."""

    name: str
    topic_id: bytes = NIL
    internal: bool = False
    partitions: tuple[ClusterPartition, ...] = ()
    error: int = 0

    def partition(self, index: int) -> ClusterPartition | None:
        """Return the partition with this index, or None if the topic has no such partition."""
        partitions = self.partitions
        if 0 <= index < len(partitions) and partitions[index].index == index:
            return partitions[index]
        return next((partition for partition in partitions if partition.index == index), None)


class LeaderHint(NamedTuple):
    """A partition's leader and leader epoch, as a Produce or Fetch response reports them (KIP-951)."""

    leader: int
    leader_epoch: int


class Merged(NamedTuple):
    """The result of merging a Metadata response into a `Cluster`."""

    cluster: Cluster
    has_news: bool
    """Whether the response has a partition that was unknown, or a newer leader epoch."""
    is_stale: bool
    """Whether an error of a topic or partition asks for another refresh, for example LEADER_NOT_AVAILABLE."""
    recreated: frozenset[str]
    """The topics whose topic id has changed, since they were deleted and created again."""


class Cluster(msgspec.Struct, frozen=True, dict=True):
    """A frozen view of a cluster's metadata.

    `epochs` has the newest leader epoch that is known of each partition, by topic and partition index. It can be newer
    than the epoch in `topics`; `leader` then returns None until the metadata has caught up.
    """

    brokers: Mapping[int, ClusterBroker] = {}
    controller_id: int | None = None
    cluster_id: str | None = None
    topics: Mapping[str, ClusterTopic] = {}
    epochs: Mapping[str, Mapping[int, int]] = {}
    is_bootstrap: bool = False

    @classmethod
    def bootstrap(cls, addresses: Iterable[tuple[str, int]]) -> Cluster:
        """Return the view that has only these addresses, before the first Metadata response."""
        brokers = [ClusterBroker(-number, host, port) for number, (host, port) in enumerate(addresses, 1)]
        return cls(brokers={broker.node_id: broker for broker in brokers}, is_bootstrap=True)

    @cached_property
    def topic_names(self) -> Mapping[bytes, str]:
        """Return the names of the topics by topic id."""
        return {topic.topic_id: topic.name for topic in self.topics.values() if topic.topic_id != NIL}

    def partition(self, partition: TopicPartition) -> ClusterPartition | None:
        """Return a partition, or None if the view does not have it."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partition(partition.partition)

    def epoch(self, partition: TopicPartition) -> int:
        """Return the newest leader epoch that is known of a partition, or -1."""
        return self.epochs.get(partition.topic, {}).get(partition.partition, NO_LEADER_EPOCH)

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the node id of a partition's leader.

        The result is None if the partition is unknown, has no leader or an unknown broker as its leader, or if a newer
        leader epoch exists.
        """
        found = self.partition(partition)
        if found is None or found.leader not in self.brokers:
            return None
        known = self.epoch(partition)
        return found.leader if known in (NO_LEADER_EPOCH, found.leader_epoch) else None

    def merge(self, response: MetadataResponse, version: int, retains: Retains, *, partial: bool) -> Merged:
        """Return the view after a Metadata response of this version.

        A partial response leaves the topics unchanged that it does not name. A topic for which `retains` returns False
        is dropped.
        """
        merge = _Merge(self, version >= RELIABLE_EPOCH_VERSION, retains)
        for described in response.topics:
            merge.add(described)
        if partial:
            merge.keep_others({described.name for described in response.topics})
        controller = response.controller_id
        cluster = Cluster(
            brokers={node.node_id: ClusterBroker.of(node) for node in response.brokers},
            controller_id=None if controller < 0 else controller,
            cluster_id=response.cluster_id,
            topics=merge.topics,
            epochs=merge.epochs,
        )
        return Merged(cluster, merge.has_news, merge.is_stale, frozenset(merge.recreated))

    def with_leaders(
        self, hints: Mapping[TopicPartition, LeaderHint], endpoints: Sequence[ClusterBroker]
    ) -> tuple[Cluster, frozenset[TopicPartition]]:
        """Return the view after the leader hints of a response, and the partitions that have a new leader (KIP-951).

        `endpoints` are the brokers in the response. A hint is ignored if its leader epoch is not newer than the known
        one, if its leader's address is unknown, or if the view does not have the partition.
        """
        brokers = {**self.brokers, **{broker.node_id: broker for broker in endpoints}}
        accepted = {
            partition: hint
            for partition, hint in hints.items()
            if hint.leader in brokers
            and hint.leader_epoch > self.epoch(partition)
            and self.partition(partition) is not None
        }
        if not accepted:
            return self, frozenset()
        topics, epochs = dict(self.topics), dict(self.epochs)
        for (name, index), hint in accepted.items():
            topics[name] = _with_leader(topics[name], index, hint)
            epochs[name] = {**epochs.get(name, {}), index: hint.leader_epoch}
        cluster = msgspec.structs.replace(self, brokers=brokers, topics=topics, epochs=epochs)
        return cluster, frozenset(accepted)


class _Merge:
    """The topics and leader epochs of a `Cluster` while a Metadata response is merged."""

    def __init__(self, old: Cluster, reliable_epochs: bool, retains: Retains) -> None:
        self._old, self._reliable_epochs, self._retains = old, reliable_epochs, retains
        self.topics: dict[str, ClusterTopic] = {}
        self.epochs = {name: epochs for name, epochs in old.epochs.items() if self._keeps(name)}
        self.recreated: set[str] = set()
        self.has_news = self.is_stale = False

    def _keeps(self, name: str) -> bool:
        topic = self._old.topics.get(name, ClusterTopic(name))
        return self._retains(name, topic.topic_id, topic.internal)

    def add(self, described: MetadataResponseTopic) -> None:
        self.is_stale = self.is_stale or described.error_code in INVALID_METADATA
        name = described.name
        if not name or not self._retains(name, described.topic_id, described.is_internal):
            return  # a request by topic id returns no name for an unknown id
        old = self._old.topics.get(name, ClusterTopic(name))
        if described.error_code:
            self.topics[name] = ClusterTopic(
                name, described.topic_id if described.topic_id != NIL else old.topic_id, error=described.error_code
            )
            return
        is_recreated = described.topic_id not in (NIL, old.topic_id)
        if is_recreated and old.topic_id != NIL:
            self.recreated.add(name)
        epochs = {} if is_recreated else dict(self.epochs.get(name, {}))
        found = [self._partition(each, epochs, old) for each in described.partitions]
        partitions = sorted((each for each in found if each is not None), key=lambda each: each.index)
        self.epochs[name] = epochs
        self.topics[name] = ClusterTopic(name, described.topic_id, described.is_internal, tuple(partitions))

    def _partition(
        self, described: MetadataResponsePartition, epochs: dict[int, int], old: ClusterTopic
    ) -> ClusterPartition | None:
        """Return the newer one of the described and the known partition, and record its leader epoch in `epochs`."""
        index, epoch = described.partition_index, described.leader_epoch
        self.is_stale = self.is_stale or described.error_code in INVALID_METADATA
        if not self._reliable_epochs or epoch < 0:
            epochs.pop(index, None)
            self.has_news = True
            return partition_of(described, NO_LEADER_EPOCH)
        known = epochs.get(index, NO_LEADER_EPOCH)
        if epoch < known:
            return old.partition(index)
        self.has_news = self.has_news or epoch > known
        epochs[index] = epoch
        return partition_of(described, epoch)

    def keep_others(self, named: set[str | None]) -> None:
        """Keep the topics that the response does not name."""
        for name, topic in self._old.topics.items():
            if name not in named and self._keeps(name):
                self.topics[name] = topic


def partition_of(described: MetadataResponsePartition, leader_epoch: int) -> ClusterPartition:
    """Return a partition of a Metadata response, with this leader epoch."""
    return ClusterPartition(
        described.partition_index,
        None if described.leader_id < 0 else described.leader_id,
        leader_epoch,
        tuple(described.replica_nodes),
        tuple(described.isr_nodes),
        tuple(described.offline_replicas),
        described.error_code,
    )


def _with_leader(topic: ClusterTopic, index: int, hint: LeaderHint) -> ClusterTopic:
    """Return the topic with another leader of one partition."""
    partitions = tuple(
        msgspec.structs.replace(each, leader=hint.leader, leader_epoch=hint.leader_epoch)
        if each.index == index
        else each
        for each in topic.partitions
    )
    return msgspec.structs.replace(topic, partitions=partitions)
