"""The partitions of this broker, by topic name and by topic id, in line with the committed metadata."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial

import trio

from pykbroker.core.descriptors import UNBOUNDED, Descriptors
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.ids import LOST, MIGRATING, UNASSIGNED
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
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.moves import Moves
from pykbroker.replica.partition import Partition
from pykbroker.replica.places import Places
from pykbroker.replica.statistics import ReplicaStatistics
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.partition_directory import PartitionDirectory
from pykbroker.storage.files.portions import AT_ONCE_MAX, portions
from pykbroker.storage.segments.config import LogConfig
from wire.declare import NIL
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class TopicReplicas:
    """The partitions of a topic on this broker, by index."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name, self.id = name, topic_id
        self.partitions: dict[int, Partition] = {}


class Replicas:
    """The partitions of broker `node_id`. Only `apply` adds and removes partitions.

    At start, a partition that this broker had before may have no directory. It is lost, stays offline, and keeps its
    entry in the checkpoint, if the metadata assigns it to a log directory that is not here, if the metadata names no
    directory while one is not here, or if a checkpoint says that it had records. Any other partition was empty and is
    created anew. Records of the last `replica.high.watermark.checkpoint.interval.ms` before a kill are in no
    checkpoint.
    """

    def __init__(
        self, node_id: int, places: Places, configs: TopicConfigs, descriptors: Descriptors = UNBOUNDED
    ) -> None:
        self._node_id, self._places, self._configs, self._descriptors = node_id, places, configs, descriptors
        self._by_name: dict[str, TopicReplicas] = {}
        self._by_id: dict[bytes, TopicReplicas] = {}
        self._missing: dict[TopicPartition, tuple[LogDirectory, str]] = {}
        self._unmade: set[tuple[bytes, int]] = set()
        self._left_closed: list[str] = []
        self._metadata = MetadataImage()
        self._changing = trio.Lock()
        self.moves = Moves(places, self._changing, self._check_room_for_copy)

    # ---- look-ups

    def topic(self, name: str, topic_id: bytes) -> TopicReplicas:
        """Return a topic by name, or by id if the name is empty.

        ApiError: UNKNOWN_TOPIC_ID, or UNKNOWN_TOPIC_OR_PARTITION for a name or for the zero id of requests without ids.
        """
        topic = self._by_name.get(name) if name else self._by_id.get(topic_id)
        if topic is None:
            named = name or topic_id == NIL
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if named else ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    def partition(self, key: TopicPartition) -> Partition:
        """Return a partition by the name of its topic. ApiError: UNKNOWN_TOPIC_OR_PARTITION."""
        known = self._by_name.get(key.topic)
        partition = known.partitions.get(key.partition) if known is not None else None
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

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
        """Return the high watermarks for the checkpoint of a directory."""
        missing = {key: one.high_watermark(key) for key, (one, _) in self._missing.items() if one is directory}
        online = {partition.key: partition.high_watermark for partition in self.online(directory)}
        return missing | online

    @property
    def open_logs(self) -> int:
        """Return the number of open logs, copies included."""
        return self._places.open_logs

    def statistics(self) -> ReplicaStatistics:
        """Return the counts of this moment."""
        partitions = [one for topic in self._by_name.values() for one in topic.partitions.values()]
        return ReplicaStatistics(
            len(partitions),
            sum(one.is_leader and one.is_online for one in partitions),
            sum(not one.is_online for one in partitions),
        )

    # ---- metadata

    async def apply(self, delta: Delta) -> None:
        """Delete, create, lead and configure partitions as a committed image says."""
        async with self._changing:
            self._metadata = delta.image
            await self._drop(delta.topics_deleted)
            if delta.previous.offset < 0:
                await self._places.set_aside(partial(self._is_stray, delta.image.topics))
                await self._places.sort_copies(partial(self._assigned, delta.image.topics))
                self._note_missing(delta.image)
            topics = [delta.image.topics.by_id[topic_id] for topic_id in sorted(delta.topics_changed)]
            for topic in sorted(
                topics, key=lambda one: not is_internal(one.name)
            ):  # coordinators of all other topics first
                await self._take(topic)
            self._tell_left_closed()
            await self._configure(delta)

    async def move(self, key: TopicPartition, path: str) -> None:
        """Begin to move a partition to another log directory (KIP-113). ApiError: it cannot move there."""
        async with self._changing:
            self.moves.destination(key, path)
            known = self._by_name.get(key.topic)
            partition = known.partitions.get(key.partition) if known is not None else None
            if known is None or partition is None:
                elsewhere = self._metadata.topics.partition(*key) is not None
                raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE if elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await self.moves.begin(partition, known.id, path)

    async def make_up(self) -> None:
        """Retry to open or create logs that found no room on the disk, or no file descriptor."""
        async with self._changing:
            for topic_id, index in sorted(self._unmade):
                if self._is_full():
                    return
                await self._make_up(self._by_id[topic_id].partitions[index], self._metadata.topics.by_id[topic_id])

    async def _make_up(self, partition: Partition, image: TopicImage) -> None:
        made = await self._partition(image, partition.index)
        if made.log is not None:
            logger.info("%s: online: its log could be opened now", partition.key)
            partition.log, partition.directory = made.log, made.directory
            self._follow(partition, image.partitions[partition.index])

    def _is_full(self) -> bool:
        """Whether one more log would take a file descriptor that is reserved for clients."""
        return self._places.open_logs >= self._descriptors.partitions_max

    def _check_room_for_copy(self, partition: Partition) -> None:
        if self._is_full():
            logger.warning(
                "%s: not moving to another log directory, as no file descriptor is free for the copy: %s",
                partition.key,
                self._descriptors.limit_text(),
            )
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    def _leave_closed(self, image: TopicImage, key: TopicPartition, directory: LogDirectory, is_new: bool) -> Partition:
        """Return the partition, offline until a file descriptor is free. A log that needs recovery keeps needing it."""
        self._left_closed.append(str(key))
        self._unmade.add((image.id, key.partition))
        if is_new:
            self._places.forget(key)
        elif not directory.clean:
            directory.set_offline(key)
        return Partition(key, None, directory)

    def _tell_left_closed(self) -> None:
        if self._left_closed:
            logger.error(
                "%d partitions, of which %s is the first, stay offline: %s; %d partitions fit."
                " Raise the limit of open files (ulimit -n) and restart, or delete topics.",
                len(self._left_closed),
                self._left_closed[0],
                self._descriptors.limit_text(),
                self._descriptors.partitions_max,
            )
            self._left_closed.clear()

    def _is_stray(self, topics: TopicsImage, found: PartitionDirectory) -> bool:
        """Whether the metadata does not assign this partition to this broker.

        A directory with the name of an assigned partition is no stray, even if its topic id differs: the file that
        holds the id may be damaged.
        """
        placed = topics.partition(*found.key)
        return placed is None or self._node_id not in placed.replicas

    def _assigned(self, topics: TopicsImage, key: TopicPartition) -> bytes | None:
        """Return the id of the log directory that the metadata assigns; None if the partition is not on this broker."""
        placed = topics.partition(*key)
        return None if placed is None or self._node_id not in placed.replicas else placed.directory(self._node_id)

    def _note_missing(self, metadata: MetadataImage) -> None:
        """Record, at start, the partitions whose logs are lost and must not be created anew."""
        last = metadata.cluster.brokers.get(self._node_id)
        lost = last is not None and self._places.lost(last.directories)
        for topic in metadata.topics.by_name.values():
            for index, placed in topic.partitions.items():
                if self._node_id in placed.replicas:
                    key = TopicPartition(topic.name, index)
                    missing = self._places.missing(key, placed.directory(self._node_id), lost=lost)
                    if missing is not None:
                        self._missing[key] = missing

    async def _drop(self, images: Iterable[TopicImage]) -> None:
        deleted: dict[LogDirectory, list[TopicPartition]] = {}
        for image in images:
            topic = self._by_id.pop(image.id, None)
            if topic is None:
                continue
            if self._by_name.get(image.name) is topic:
                del self._by_name[image.name]
            for place, (index, partition) in enumerate(topic.partitions.items(), 1):
                if place % AT_ONCE_MAX == 0:
                    await trio.lowlevel.checkpoint()
                partition.resign(partition.leader_epoch)
                self.moves.forget(partition)
                deleted.setdefault(partition.directory, []).append(partition.key)
                self._places.forget(partition.key)
                self._missing.pop(partition.key, None)
                self._unmade.discard((image.id, index))
        for directory, keys in deleted.items():
            await directory.delete_logs(keys)

    async def _take(self, image: TopicImage) -> None:
        """Open or create the partitions of a topic, and lead those that this broker leads, in steps."""
        topic = self._by_id.get(image.id) or TopicReplicas(image.name, image.id)
        for place, (index, placed) in enumerate(image.partitions.items(), 1):
            if place % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            if self._node_id in placed.replicas:
                partition = topic.partitions.get(index)
                if partition is None:
                    await trio.lowlevel.checkpoint()
                    partition = topic.partitions[index] = await self._partition(image, index)
                    await self.moves.resume(partition, image.id)
                self._follow(partition, placed)
        self._by_id[image.id] = self._by_name[image.name] = topic

    def _follow(self, partition: Partition, placed: PartitionImage) -> None:
        if placed.leader == self._node_id:
            partition.lead(placed.leader_epoch)
        else:
            partition.resign(placed.leader_epoch)

    async def _partition(self, image: TopicImage, index: int) -> Partition:
        """Return the partition with its log, opened or new. Without a log, the reason is logged."""
        key = TopicPartition(image.name, index)
        if key in self._missing:
            directory, why = self._missing[key]
            logger.error("%s: staying offline in %s: %s", key, directory.path, why)
            return Partition(key, None, directory)
        assigned = image.partitions[index].directory(self._node_id)
        directory, is_new = self._places.find(key, assigned)
        if self._is_full():
            return self._leave_closed(image, key, directory, is_new)
        config = self._log_config(image.name, self._metadata)
        try:
            log = await (directory.create_log if is_new else directory.open_log)(key, image.id, config)
            if config.flush_before_ack:
                await log.flush()
        except (CorruptLog, OSError) as error:
            if (image.id, index) not in self._unmade:
                logger.error("%s: staying offline in %s: %s", key, directory.path, error)
            if is_new:
                self._places.forget(key)
                self._unmade.add((image.id, index))
            return Partition(key, None, directory)
        self._unmade.discard((image.id, index))
        return Partition(key, log, directory)

    async def misplaced(self, delta: Delta) -> dict[tuple[bytes, int], bytes]:
        """Return (topic id, index) and directory id of the changed partitions that the metadata places elsewhere."""
        found: dict[tuple[bytes, int], bytes] = {}
        for topic_id in sorted(delta.topics_changed):
            placed = delta.image.topics.by_id[topic_id].partitions
            for place, (index, partition) in enumerate(self._by_id[topic_id].partitions.items(), 1):
                if place % AT_ONCE_MAX == 0:
                    await trio.lowlevel.checkpoint()
                directory_id = self._places.id_of(partition.directory)
                assigned = placed[index].directory(self._node_id)
                if partition.log is not None and assigned != directory_id:
                    found[topic_id, index] = directory_id
                elif partition.key in self._missing and assigned in (UNASSIGNED, MIGRATING):
                    found[topic_id, index] = LOST  # the next start then knows that no directory was lost
        return found

    async def _configure(self, delta: Delta) -> None:
        """Apply changed configs: those of a broker to all topics, those of a topic to this topic."""
        changed = delta.configs_changed
        everywhere = any(kind == BROKER_RESOURCE for kind, _ in changed)
        for name in self._by_name if everywhere else [name for kind, name in changed if kind == TOPIC_RESOURCE]:
            topic = self._by_name.get(name)
            config = self._log_config(name, delta.image)
            await trio.lowlevel.checkpoint()
            for few in portions(topic.partitions.values() if topic is not None else ()):
                for partition in few:
                    partition.configure(config)
                    self.moves.configure(partition)
                await trio.lowlevel.checkpoint()

    def _log_config(self, topic: str, metadata: MetadataImage) -> LogConfig:
        return self._configs.log_config(metadata.configs.topic(topic), metadata.configs.dynamic(self._node_id))
