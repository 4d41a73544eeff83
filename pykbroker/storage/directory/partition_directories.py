"""The partition directories of a log directory: their names and topic ids."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.chores import Chores
from pykbroker.storage.directory.future_logs import FutureLogs, free_name
from pykbroker.storage.directory.root_checkpoints import RootCheckpoints
from pykbroker.storage.files.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from pykbroker.storage.files.partition_directory import (
    ASIDE,
    DELETED_NAME,
    FUTURE_NAME,
    METADATA,
    PartitionDirectory,
    decode_metadata,
    directory_name,
    encode_metadata,
    parse_name,
)
from pykbroker.storage.files.small_files import read_whole, replace
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.leftovers import SWAP
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)


class PartitionDirectories:
    """The partition directories of a log directory.

    `topic_ids` has the topic id of each, None without partition.metadata. `aside` has the names of directories that
    were set aside as strays. `clean` is true if the previous shutdown was clean. `fail` is called with every OSError.
    """

    def __init__(
        self, disk: Disk, checkpoints: RootCheckpoints, fail: Callable[[OSError], None], *, clean: bool
    ) -> None:
        self._disk, self._checkpoints, self._fail, self._clean = disk, checkpoints, fail, clean
        self.topic_ids: dict[TopicPartition, bytes | None] = {}
        self.aside: list[str] = []

    async def find(self, chores: Chores, futures: FutureLogs) -> None:
        """Find the partitions and future logs at start, and continue the deletions that a crash interrupted."""
        for name in self._disk.names(""):
            if not self._disk.is_directory(name):
                continue
            if ASIDE.fullmatch(name):
                self.aside.append(name)
            elif DELETED_NAME.fullmatch(name):
                chores.remove_later([name], LogConfig().file_delete_delay_ms)
            elif copied := parse_name(name, FUTURE_NAME):
                futures.found(copied, name)
            elif found := parse_name(name):
                self.topic_ids[found] = await self._topic_id(name)
            # The root of an ext4 file system has this directory.
            elif name != "lost+found":
                logger.warning("%s/%s is not a partition's directory and is ignored", self._disk.path, name)

    async def _topic_id(self, name: str) -> bytes | None:
        try:
            return decode_metadata(await read_whole(self._disk, f"{name}/{METADATA}"))
        except FileNotFoundError:
            return None
        except OSError as refusal:
            logger.error("%s/%s/%s cannot be read: %s", self._disk.path, name, METADATA, refusal)
            return None

    def partitions(self) -> list[PartitionDirectory]:
        """Return the partitions that have a directory, except `__cluster_metadata`."""
        return [
            PartitionDirectory(key, topic_id)
            for key, topic_id in self.topic_ids.items()
            if key.topic != CLUSTER_METADATA_TOPIC
        ]

    def forget(self, key: TopicPartition) -> bytes | None:
        """Remove a partition from `topic_ids` and return its topic id."""
        self._checkpoints.forget(key)
        return self.topic_ids.pop(key, None)

    async def claim(self, key: TopicPartition, topic_id: bytes) -> None:
        """Write this topic id to a partition's directory.

        The checkpointed offsets of an earlier topic of the same name are erased.
        """
        await self.release_name(key)
        replace(self._disk, f"{directory_name(key)}/{METADATA}", encode_metadata(topic_id))
        self.topic_ids[key] = topic_id

    async def release_name(self, key: TopicPartition) -> None:
        """Erase the checkpoints that an earlier topic's partition of this name left."""
        self.forget(key)
        await self._checkpoints.erase([key])

    def is_bare(self, key: TopicPartition) -> bool:
        """Whether the partition's directory certainly holds no records that must be kept."""
        left = self._checkpoints.left
        if left[RECOVERY_POINTS].get(key) or left[HIGH_WATERMARKS].get(key):
            return False
        if not self._clean:
            return True
        name = directory_name(key)
        return not any(self._disk.size(f"{name}/{file}") for file in self._disk.names(name) if file.endswith(".log"))

    def lacks_segments(self, key: TopicPartition) -> bool:
        """Whether the partition has no segment, but its checkpointed high watermark is above its log start offset."""
        left = self._checkpoints.left
        if left[HIGH_WATERMARKS].get(key, 0) <= left[LOG_STARTS].get(key, 0):
            return False
        return not any(file.endswith((".log", SWAP)) for file in self._disk.names(directory_name(key)))

    async def put_away(self, key: TopicPartition, why: str) -> str | None:
        """Rename a partition's directory and return the new name.

        Return None if the directory does not exist or cannot be renamed.
        """
        try:
            return await self.rename(key, why)
        except FileNotFoundError:
            return None
        except OSError as failure:
            logger.error("%s/%s cannot be renamed: %s", self._disk.path, directory_name(key), failure)
            self._fail(failure)
            return None

    async def rename(self, key: TopicPartition, why: str) -> str:
        """Rename a partition's directory and return the new name. Raise OSError if that fails."""
        await trio.lowlevel.checkpoint()
        topic_id = self.forget(key)
        away = free_name(self._disk, key, topic_id or b"", why)
        self._disk.rename(directory_name(key), away)
        return away
