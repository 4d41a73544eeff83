"""All partitions of this broker, by topic name and by topic id, as the committed metadata says."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import Delta, MetadataImage, TopicImage
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL
from pykbroker.replica.partition import Partition
from pykbroker.replica.places import Places
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.storage.config import LogConfig
from pykbroker.storage.errors import CorruptLog
from pykbroker.storage.log import Log
from pykbroker.storage.log_directory import LogDirectory
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class Topic:
    """A topic's partitions on this broker, by index."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name, self.id = name, topic_id
        self.partitions: dict[int, Partition] = {}


class Replicas:
    """The partitions of broker `node_id`; `apply` is the only thing that changes which there are.

    A partition that was there when this broker last ran may have no directory now. If the metadata assigns it to a log
    directory that is not here, or a checkpoint says that it had records, it stays offline, and the checkpoint goes on
    to say so; otherwise it never held anything (but what a kill within the interval of
    `replica.high.watermark.checkpoint.interval.ms` left unsaid), and is made.
    """

    def __init__(self, node_id: int, places: Places, configs: TopicConfigs) -> None:
        self._node_id, self._places, self._configs = node_id, places, configs
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._missing: dict[tuple[str, int], tuple[LogDirectory, str]] = {}

    # ---- look-ups

    def topic(self, name: str, topic_id: bytes) -> Topic:
        """By name where it is not empty, else by id."""
        topic = self._by_name.get(name) if name else self._by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    def partition(self, topic: str, index: int) -> Partition:
        """A partition of a topic known by name."""
        known = self._by_name.get(topic)
        partition = known.partitions.get(index) if known is not None else None
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def online(self, directory: LogDirectory) -> Iterator[Partition]:
        """The partitions whose log is open in this directory."""
        for topic in self._by_name.values():
            for partition in topic.partitions.values():
                if partition.log is not None and partition.directory is directory:
                    yield partition

    def high_watermarks(self, directory: LogDirectory) -> dict[tuple[str, int], int]:
        """For the checkpoint of a directory."""
        missing = {key: one.high_watermark(*key) for key, (one, _) in self._missing.items() if one is directory}
        online = {(partition.topic, partition.index): partition.high_watermark for partition in self.online(directory)}
        return missing | online

    # ---- metadata

    async def apply(self, delta: Delta) -> None:
        """Bring the partitions in line with a committed image: deleted, created, led, configured."""
        for deleted in delta.topics_deleted:
            await self._drop(deleted)
        if delta.previous.offset < 0:
            self._note_missing(delta.image)
        for topic_id in sorted(delta.topics_changed):
            await self._take(delta.image.topics.by_id[topic_id], delta.image)
        if delta.configs_changed:
            self._configure(delta.image)

    def _note_missing(self, metadata: MetadataImage) -> None:
        """At start: which partitions have no directory, and may not be made anew."""
        for topic in metadata.topics.by_name.values():
            for index, placed in topic.partitions.items():
                if self._node_id in placed.replicas:
                    missing = self._places.missing(topic.name, index, placed.directory(self._node_id))
                    if missing is not None:
                        self._missing[topic.name, index] = missing

    async def _drop(self, image: TopicImage) -> None:
        topic = self._by_id.pop(image.id, None)
        if topic is None:
            return
        if self._by_name.get(image.name) is topic:
            del self._by_name[image.name]
        deleted: dict[LogDirectory, list[int]] = {}
        for index, partition in topic.partitions.items():
            partition.resign(partition.leader_epoch)
            deleted.setdefault(partition.directory, []).append(index)
            self._places.forget(image.name, index)
            self._missing.pop((image.name, index), None)
        for directory, indexes in deleted.items():
            await directory.delete_logs(image.name, indexes)

    async def _take(self, image: TopicImage, metadata: MetadataImage) -> None:
        """Open or create what is ours of a topic, then lead what we lead."""
        topic = self._by_id.get(image.id) or Topic(image.name, image.id)
        for index, placed in image.partitions.items():
            if self._node_id not in placed.replicas:
                continue
            partition = topic.partitions.get(index)
            if partition is None:
                partition = topic.partitions[index] = await self._partition(image, index, metadata)
            if placed.leader == self._node_id:
                partition.lead(placed.leader_epoch)
            else:
                partition.resign(placed.leader_epoch)
        self._by_id[image.id] = self._by_name[image.name] = topic

    async def _partition(self, image: TopicImage, index: int, metadata: MetadataImage) -> Partition:
        if (image.name, index) in self._missing:
            directory, why = self._missing[image.name, index]
            logger.error("%s-%d in %s stays offline: %s", image.name, index, directory.path, why)
            return Partition(image.name, index, None, directory)
        assigned = image.partitions[index].directory(self._node_id)
        directory, is_new = self._places.find(image.name, index, assigned)
        log = await self._log(directory, image, index, self._log_config(image.name, metadata), is_new=is_new)
        return Partition(image.name, index, log, directory)

    async def _log(
        self, directory: LogDirectory, image: TopicImage, index: int, config: LogConfig, *, is_new: bool
    ) -> Log | None:
        """The log on disk, or a new one; None, and a line that says why, where what is there cannot be served."""
        try:
            if not is_new:
                return await directory.open_log(image.name, index, image.id, config)
            return await directory.create_log(image.name, index, image.id, config)
        except (CorruptLog, OSError) as error:
            logger.error("%s-%d in %s stays offline: %s", image.name, index, directory.path, error)
            return None

    def misplaced(self, delta: Delta) -> dict[tuple[bytes, int], bytes]:
        """Of what has changed: where partitions (topic id, index) lie of which the metadata does not know it."""
        found: dict[tuple[bytes, int], bytes] = {}
        if delta.image.features.level(METADATA_FEATURE) >= DIRECTORIES_LEVEL:
            for topic_id in sorted(delta.topics_changed):
                placed = delta.image.topics.by_id[topic_id].partitions
                for index, partition in self._by_id[topic_id].partitions.items():
                    directory_id = self._places.id_of(partition.directory)
                    if partition.log is not None and placed[index].directory(self._node_id) != directory_id:
                        found[topic_id, index] = directory_id
        return found

    def _configure(self, metadata: MetadataImage) -> None:
        for topic in self._by_name.values():
            config = self._log_config(topic.name, metadata)
            for partition in topic.partitions.values():
                if partition.log is not None:
                    partition.log.configure(config)

    def _log_config(self, topic: str, metadata: MetadataImage) -> LogConfig:
        return self._configs.log_config(metadata.configs.topic(topic), metadata.configs.cluster_default)
