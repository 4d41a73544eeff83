"""The partitions that the committed metadata assigns to this broker, by topic name and by topic id."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial

import trio

from pykbroker.core.descriptors import UNBOUNDED, Descriptors
from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST, MIGRATING, UNASSIGNED
from pykbroker.core.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Delta,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from pykbroker.core.names import is_internal
from pykbroker.core.replication.following import Following
from pykbroker.core.topic_partition import TopicIdPartition, TopicPartition
from pykbroker.replica.following.fetch_settings import ReplicaFetchSettings
from pykbroker.replica.following.fetchers import Fetchers
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.replica.placing.moves import Moves
from pykbroker.replica.placing.opener import PartitionOpener
from pykbroker.replica.placing.places import Places
from pykbroker.replica.quotas import ReplicationQuotas
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.partition_directory import PartitionDirectory
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.portions import AT_ONCE_MAX, portions
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.sentinels import NO_LEADER

logger = logging.getLogger(__name__)


class TopicReplicas:
    """The partitions of a topic on this broker, by index."""

    __slots__ = ("id", "name", "partitions", "traffic")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name, self.id = name, topic_id
        self.partitions: dict[int, Partition] = {}
        self.traffic = TopicTraffic()


class Replicas:
    """The partitions of a broker. Only `apply` adds and removes partitions."""

    def __init__(
        self,
        broker: OwnBroker,
        places: Places,
        configs: TopicConfigs,
        descriptors: Descriptors = UNBOUNDED,
        fetchers: Fetchers | None = None,
        quotas: ReplicationQuotas | None = None,
    ) -> None:
        """Start without partitions. Without `fetchers`, partitions of other leaders are not fetched."""
        self.broker, self.places, self._configs = broker, places, configs
        self._node_id = broker.node_id
        self.quotas = quotas or ReplicationQuotas(broker.node_id)
        self.fetchers = fetchers or Fetchers(broker, None, ReplicaFetchSettings(), self.quotas.follower)
        self.opener = PartitionOpener(broker, places, descriptors)
        self._by_name: dict[str, TopicReplicas] = {}
        self._by_id: dict[bytes, TopicReplicas] = {}
        self.metadata = MetadataImage()
        self.changing = trio.Lock()
        """Held while partitions are added, removed, replaced or moved."""
        self.traffic_of_deleted_topics = TopicTraffic()
        self.moves = Moves(places, self.changing, self.opener.check_room_for_copy, self.quotas.alter_log_dirs)
        self.fetchers.truncated = self.moves.restart

    # ---- look-ups

    def topic(self, name: str, topic_id: bytes) -> TopicReplicas:
        """Return a topic by name, or by id if the name is empty.

        Raise UNKNOWN_TOPIC_ID if the id is unknown. Raise UNKNOWN_TOPIC_OR_PARTITION if the name is unknown, or if a
        request without topic ids sent the zero id.
        """
        topic = self._by_name.get(name) if name else self._by_id.get(topic_id)
        if topic is None:
            named = name or topic_id == NIL
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if named else ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    def partition(self, key: TopicPartition) -> Partition:
        """Return a partition by the name of its topic.

        Raise UNKNOWN_TOPIC_OR_PARTITION if it does not exist, and NOT_LEADER_OR_FOLLOWER if other brokers have it.
        """
        known = self._by_name.get(key.topic)
        partition = known.partitions.get(key.partition) if known is not None else None
        if partition is None:
            raise ApiError(self.why_absent(key))
        return partition

    def why_absent(self, key: TopicPartition) -> ErrorCode:
        """Return the error for a partition that is not on this broker: other brokers have it, or it does not exist."""
        elsewhere = self.metadata.topics.partition(*key) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def topics(self) -> list[TopicReplicas]:
        """Return all topics that have partitions on this broker."""
        return list(self._by_name.values())

    def offline(self, topic_id: bytes) -> set[int]:
        """Return the partitions of a topic that this broker has but cannot serve."""
        topic = self._by_id.get(topic_id)
        return set() if topic is None else {one.index for one in topic.partitions.values() if not one.is_online}

    def led(self, topic_id: bytes) -> dict[int, Partition]:
        """Return the partitions of a topic that this broker leads and can serve, by index."""
        topic = self._by_id.get(topic_id)
        return (
            {}
            if topic is None
            else {index: one for index, one in topic.partitions.items() if one.is_leader and one.is_online}
        )

    def online(self, directory: LogDirectory) -> Iterator[Partition]:
        """Return the partitions whose log is open in this directory."""
        return (partition for partition in self.all_online() if partition.directory is directory)

    def all_online(self) -> list[Partition]:
        """Return the partitions whose log is open."""
        return [
            partition
            for topic in self._by_name.values()
            for partition in topic.partitions.values()
            if partition.log is not None
        ]

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Return the high watermarks of all partitions in a directory, for its checkpoint."""
        return {partition.key: partition.high_watermark for partition in self.online(directory)}

    @property
    def open_logs(self) -> int:
        """Return the number of open logs, including copies."""
        return self.places.open_logs

    # ---- metadata

    async def apply(self, delta: Delta) -> None:
        """Apply a committed change of the metadata: delete, create, lead and configure partitions."""
        async with self.changing:
            self.metadata = delta.image
            self.broker.apply(delta.image.cluster)
            self.quotas.apply(delta)
            await self._drop(delta.topics_deleted)
            # The first metadata since the start tells which of the directories found are this broker's. Strays go
            # first: a log may have one as its twin, and a copy is promoted only if no log is left.
            if delta.previous.offset < 0:
                await self.places.set_aside(partial(self._is_stray, delta.image.topics))
                await self.places.sort_twins(partial(self._assigned, delta.image.topics))
                await self.places.sort_copies(
                    partial(self._assigned, delta.image.topics), partial(self._is_stray, delta.image.topics)
                )
                self.opener.find_lost(delta.image)
            topics = [delta.image.topics.by_id[topic_id] for topic_id in sorted(delta.topics_changed)]
            # Internal topics come first: the clients of all others may wait for a coordinator.
            for topic in sorted(topics, key=lambda one: not is_internal(one.name)):
                await self._take(topic)
            await self._follow_created()
            self.opener.log_without_descriptor()
            await self._configure(delta)
            self.fetchers.refresh()

    async def move(self, key: TopicPartition, path: str) -> None:
        """Begin to move a partition to another log directory (KIP-113).

        Raise ApiError if the partition cannot move there.
        """
        async with self.changing:
            self.moves.destination(key, path)
            known = self._by_name.get(key.topic)
            partition = known.partitions.get(key.partition) if known is not None else None
            if known is None or partition is None:
                elsewhere = self.metadata.topics.partition(*key) is not None
                raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE if elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await self.moves.begin(partition, known.id, path)

    async def retry_unopened(self) -> None:
        """Retry to open or create the logs that failed for lack of disk space or a file descriptor."""
        async with self.changing:
            for topic_id, key in self.opener.unopened:
                if self.opener.is_full:
                    return
                image = self.metadata.topics.by_id[topic_id]
                opened = await self._open(image, key.partition)
                if opened.log is not None:
                    logger.info("%s: online: its log could be opened now", key)
                    partition = self._by_id[topic_id].partitions[key.partition]
                    partition.log, partition.directory = opened.log, opened.directory
                    partition.repair = opened.repair
                    partition.configure(opened.log.config)
                    partition.high_watermark = opened.high_watermark
                    # A new replica is listed before it is followed: see `_follow_created`.
                    await self.opener.list_created()
                    await self.follow(partition, image.partitions[key.partition])

    def _is_stray(self, topics: TopicsImage, found: PartitionDirectory) -> bool:
        """Whether a directory belongs to no replica that the metadata assigns to this broker.

        A topic may have been deleted and created again under the same name while this broker did not run. The directory
        then has another topic id. A replica of the ISR, or an only replica, may have acknowledged records: its
        directory is not a stray, since the file with the topic id may be damaged.
        """
        topic = topics.by_name.get(found.key.topic)
        placed = None if topic is None else topic.partitions.get(found.key.partition)
        if topic is None or placed is None or self._node_id not in placed.replicas:
            return True
        is_replaceable = len(placed.replicas) > 1 and self._node_id not in placed.isr
        return is_replaceable and found.topic_id not in (None, topic.id)

    def _assigned(self, topics: TopicsImage, key: TopicPartition) -> bytes | None:
        """Return the id of the log directory that the metadata assigns, or None for a partition of other brokers."""
        placed = topics.partition(*key)
        return None if placed is None or self._node_id not in placed.replicas else placed.directory(self._node_id)

    async def _drop(self, images: Iterable[TopicImage]) -> None:
        deleted: dict[LogDirectory, list[TopicPartition]] = {}
        for image in images:
            topic = self._by_id.pop(image.id, None)
            if topic is None:
                continue
            if self._by_name.get(image.name) is topic:
                del self._by_name[image.name]
            self.traffic_of_deleted_topics.add(topic.traffic)
            for place, partition in enumerate(topic.partitions.values(), 1):
                if place % AT_ONCE_MAX == 0:
                    await trio.lowlevel.checkpoint()
                await self._let_go(partition, is_deleted=True)
                deleted.setdefault(partition.directory, []).append(partition.key)
        for directory, keys in deleted.items():
            await directory.delete_logs(keys)

    async def _let_go(self, partition: Partition, *, is_deleted: bool) -> None:
        """End every use of a partition whose log is about to be deleted, perhaps because its topic was deleted."""
        absence = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.resign(Following(partition.leader_epoch, absence=absence))
        partition.refused.forget()
        followers, partition.followers = partition.followers, ()
        for follower in followers:
            follower.lose(partition)
        await self.fetchers.unfollow(partition)
        self.moves.forget(partition)
        partition.unwritable = None
        self.opener.forget(partition.key)

    async def _take(self, image: TopicImage) -> None:
        """Open or create the partitions of a topic, and lead or follow each as the metadata says.

        A partition that was reassigned to other brokers is deleted. Other tasks can run during the call.
        """
        topic, unopened = self._by_id.get(image.id) or TopicReplicas(image.name, image.id), []
        for place, (index, placed) in enumerate(image.partitions.items(), 1):
            if place % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            if self._node_id in placed.replicas:
                partition = topic.partitions.get(index)
                if partition is None:
                    await trio.lowlevel.checkpoint()
                    partition = topic.partitions[index] = await self._open(image, index)
                    partition.traffic, partition.topic_id = topic.traffic, image.id
                    await self.moves.resume(partition, image.id)
                    if partition.log is None and partition.repair is None:
                        unopened.append(partition)
                if not self.opener.is_created(partition):
                    await self.follow(partition, placed)
                if partition.repair is not None:
                    self.broker.damage.set()
            elif index in topic.partitions:
                partition = topic.partitions.pop(index)
                logger.info("%s: the replica was reassigned to other brokers, and is deleted", partition.key)
                await self._let_go(partition, is_deleted=False)
                await partition.directory.delete_logs([partition.key])
        self._by_id[image.id] = self._by_name[image.name] = topic
        # `care/unwritable_replicas` looks only at the partitions of known topics, and would miss an earlier refusal.
        for partition in unopened:
            partition.note_refused_append()

    async def _follow_created(self) -> None:
        """Lead or follow the partitions of several replicas whose logs were created, once they are listed.

        No record is appended before a log is listed: a start would otherwise take a partition whose directory vanished
        for an empty one.
        """
        for place, partition in enumerate(await self.opener.list_created(), 1):
            if place % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            await self.follow(partition, self.metadata.topics.by_id[partition.topic_id].partitions[partition.index])

    async def _open(self, image: TopicImage, index: int) -> Partition:
        placed, config = image.partitions[index], self.log_config(image.name, self.metadata)
        assigned, is_only = placed.directory(self._node_id), len(placed.replicas) == 1
        return await self.opener.open(TopicPartition(image.name, index), image.id, assigned, config, is_only=is_only)

    async def follow(self, partition: Partition, placed: PartitionImage) -> None:
        """Lead or follow a partition as the metadata says, after a truncation that is running has ended."""
        if placed.leader == self._node_id:
            await self.fetchers.unfollow(partition)
            partition.lead(placed)
        else:
            if partition.is_leader or partition.leader_epoch != placed.leader_epoch:
                partition.resign(Following(placed.leader_epoch, has_leader=placed.leader != NO_LEADER))
            # A damaged log is not fetched before its repair says so: see 2 of `core/replication/repair`.
            if partition.repair is None or partition.repair.is_fetched:
                await self.fetchers.follow(partition, placed)

    async def misplaced(self, delta: Delta) -> dict[TopicIdPartition, bytes]:
        """Return the actual directory id of each changed partition whose id in the metadata is a different one."""
        found: dict[TopicIdPartition, bytes] = {}
        for topic_id in sorted(delta.topics_changed):
            placed = delta.image.topics.by_id[topic_id].partitions
            for place, (index, partition) in enumerate(self._by_id[topic_id].partitions.items(), 1):
                if place % AT_ONCE_MAX == 0:
                    await trio.lowlevel.checkpoint()
                directory_id = self.places.id_of(partition.directory)
                assigned = placed[index].directory(self._node_id)
                if partition.log is not None and partition.repair is None and assigned != directory_id:
                    # A replica that cannot be written has reported LOST itself, and returns by
                    # `care/unwritable_replicas`.
                    if assigned != LOST or partition.unwritable is None:
                        found[topic_id, index] = directory_id
                elif self.opener.is_lost(partition.key) and assigned in (UNASSIGNED, MIGRATING):
                    found[topic_id, index] = LOST  # LOST tells the next start that no log directory is missing
        return found

    async def _configure(self, delta: Delta) -> None:
        """Apply changed configs. A broker config affects all topics, a topic config only its topic."""
        changed = delta.configs_changed
        everywhere = any(kind == BROKER_RESOURCE for kind, _ in changed)
        for name in self._by_name if everywhere else [name for kind, name in changed if kind == TOPIC_RESOURCE]:
            topic = self._by_name.get(name)
            config = self.log_config(name, delta.image)
            await trio.lowlevel.checkpoint()
            for few in portions(topic.partitions.values() if topic is not None else ()):
                for partition in few:
                    partition.configure(config)
                    self.moves.configure(partition)
                await trio.lowlevel.checkpoint()

    def log_config(self, topic: str, metadata: MetadataImage) -> LogConfig:
        return self._configs.log_config(metadata.configs.topic(topic), metadata.configs.dynamic(self._node_id))
