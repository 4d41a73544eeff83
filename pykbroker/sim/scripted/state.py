"""The state that the nodes of a scripted cluster share: topics with leaders, and coordinators."""

from __future__ import annotations

from random import Random

import msgspec
import trio

from pykbroker.core.topic_partition import TopicIdPartition, TopicPartition
from pykbroker.sim.scripted.log import ScriptedLog
from wire.error_codes import ErrorCode
from wire.messages.find_coordinator import Coordinator
from wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.sentinels import NO_LEADER, NO_LEADER_EPOCH, NO_NODE


class ScriptedPartition(msgspec.Struct):
    """A partition, with its leader and leader epoch. The leader is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


class ScriptedTopic(msgspec.Struct):
    """A topic, with its id."""

    name: str
    topic_id: bytes
    partitions: list[ScriptedPartition]


class ScriptedState:
    """The brokers and topics of a cluster, and the coordinators of groups and transactional ids."""

    def __init__(self, rng: Random, addresses: dict[int, tuple[str, int]]) -> None:
        self.rng = rng
        self.addresses = addresses
        self.topics: dict[str, ScriptedTopic] = {}
        self.coordinators: dict[tuple[int, str], int] = {}
        """The node ids of the coordinators that differ from the smallest one, by key type and key.

        The id -1 stands for a coordinator that is not available.
        """
        self.racks: dict[int, str] = {}
        """The racks of the nodes that have one."""
        self.changed = trio.Event()
        """An event that is set at the next change of a leader, a topic or a log."""
        self._logs: dict[TopicIdPartition, ScriptedLog] = {}
        self.features, self.features_epoch = {"transaction.version": 2}, 1
        """The finalized features with their levels, and their epoch."""
        self.auto_creates = True
        """Whether a Metadata request creates an unknown topic with one partition."""

    def add_topic(self, name: str, partitions: int = 1) -> ScriptedTopic:
        """Create a topic, whose partitions have their leaders on the nodes in turn."""
        nodes = sorted(self.addresses)
        made = [
            ScriptedPartition(index, nodes[index % len(nodes)], 0, nodes[:], nodes[:]) for index in range(partitions)
        ]
        self.topics[name] = topic = ScriptedTopic(name, self.rng.randbytes(16), made)
        self.note_change()
        return topic

    def partition(self, partition: TopicPartition) -> ScriptedPartition | None:
        """Return a partition, or None if it does not exist."""
        topic = self.topics.get(partition.topic)
        is_known = topic is not None and 0 <= partition.partition < len(topic.partitions)
        return topic.partitions[partition.partition] if topic is not None and is_known else None

    def named(self, name: str, topic_id: bytes, index: int) -> TopicPartition | None:
        """Return a partition of a topic that a request names, or identifies by its id in newer versions."""
        if any(topic_id):
            name = next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), "")
        return TopicPartition(name, index) if name in self.topics else None

    def log(self, partition: TopicPartition) -> ScriptedLog:
        key = self.topics[partition.topic].topic_id, partition.partition
        if key not in self._logs:
            self._logs[key] = ScriptedLog(self.note_change)
            self._logs[key].begin_epoch(self.leader_epoch(partition))
        return self._logs[key]

    def leader_and_epoch(self, partition: TopicPartition | None) -> tuple[int, int]:
        """Return the leader and the leader epoch of a partition, or -1 for both if it does not exist."""
        found = None if partition is None else self.partition(partition)
        return (NO_LEADER, NO_LEADER_EPOCH) if found is None else (found.leader, found.leader_epoch)

    def leader_epoch(self, partition: TopicPartition | None) -> int:
        """Return the leader epoch of a partition, or -1 if it does not exist."""
        return self.leader_and_epoch(partition)[1]

    def preferred_replica(self, partition: TopicPartition | None, rack: str) -> int:
        """Return a replica in this rack, or -1 if there is none (KIP-392)."""
        found = None if partition is None else self.partition(partition)
        return next((each for each in found.replicas if self.racks.get(each) == rack), NO_NODE) if found else NO_NODE

    def recreate_topic(self, name: str) -> ScriptedTopic:
        """Delete a topic with its records, and create it again with the same number of partitions."""
        return self.add_topic(name, len(self.topics[name].partitions))

    def note_change(self) -> None:
        """Wake the requests that wait for records."""
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    def move_leader(self, partition: TopicPartition, leader: int) -> None:
        """Elect a leader, which begins a new leader epoch. The leader -1 leaves the partition without one."""
        found = self.partition(partition)
        assert found is not None, f"{partition} does not exist"
        log = self.log(partition)
        found.leader, found.leader_epoch = leader, found.leader_epoch + 1
        log.begin_epoch(found.leader_epoch)
        self.note_change()

    def coordinator(self, key_type: int, key: str) -> Coordinator:
        """Return the coordinator of a group or a transactional id, as FindCoordinator answers."""
        node_id = self.coordinators.get((key_type, key), min(self.addresses))
        if node_id not in self.addresses:
            return Coordinator(key, NO_NODE, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key, node_id, *self.addresses[node_id])

    def copy(self) -> ScriptedState:
        """Return a copy of the topics and addresses, for a node whose metadata is stale."""
        stale = ScriptedState(self.rng, dict(self.addresses))
        stale.topics = {
            name: msgspec.convert(msgspec.to_builtins(topic), ScriptedTopic) for name, topic in self.topics.items()
        }
        stale.auto_creates = False
        return stale

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id, *address, self.racks.get(node_id))
            for node_id, address in sorted(self.addresses.items())
        ]
        return MetadataResponse(
            brokers=brokers,
            cluster_id="scripted",
            controller_id=min(self.addresses),
            topics=[self._described(*asked) for asked in self._asked(request)],
        )

    def _asked(self, request: MetadataRequest) -> list[tuple[str | None, bytes, ScriptedTopic | None]]:
        """Return the names, ids and topics of a request. As in Kafka, a topic id makes the names count for nothing."""
        if request.topics is None:
            return [(name, topic.topic_id, topic) for name, topic in sorted(self.topics.items())]
        ids = {asked.topic_id for asked in request.topics if any(asked.topic_id)}
        if ids:
            by_id = {topic.topic_id: topic for topic in self.topics.values()}
            return [
                (found.name if (found := by_id.get(topic_id)) else None, topic_id, by_id.get(topic_id))
                for topic_id in sorted(ids)
            ]
        names = [asked.name or "" for asked in request.topics]
        for name in names:
            if name not in self.topics and self.auto_creates and request.allow_auto_topic_creation:
                self.add_topic(name)
        return [(name, bytes(16), self.topics.get(name)) for name in names]

    def _described(self, name: str | None, topic_id: bytes, topic: ScriptedTopic | None) -> MetadataResponseTopic:
        if topic is None:
            by_id = any(topic_id)
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(code, name, topic_id)
        partitions = [
            MetadataResponsePartition(
                ErrorCode.LEADER_NOT_AVAILABLE if each.leader == NO_LEADER else 0,
                each.index,
                each.leader,
                each.leader_epoch,
                each.replicas,
                each.isr,
                [],
            )
            for each in topic.partitions
        ]
        return MetadataResponseTopic(0, name, topic.topic_id, False, partitions)
