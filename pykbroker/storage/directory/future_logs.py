"""Future logs: copies of partitions that move into a log directory (KIP-113), in directories with the suffix `-future`.

1. A future log holds only records of the partition's current log, from its log start offset on.
2. No checkpoint lists a future log until it replaces the current log, so that recovery reads the whole future log.
3. A future log found at start may already have replaced the current log, if the broker crashed before it renamed the
   directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.chores import Chores, remove_tree
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.partition_directory import (
    DELETE,
    FUTURE,
    METADATA,
    STRAY,
    away_name,
    decode_metadata,
    encode_metadata,
)
from pykbroker.storage.files.small_files import read_whole, replace
from pykbroker.storage.files.traffic import Traffic
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.opening import Loaded
from pykbroker.world.disk import Disk
from pykbroker.world.off_loop import OffLoop

logger = logging.getLogger(__name__)


class FutureLogs:
    """The future logs in a log directory. `names` has the directories of all future logs, `logs` the open ones."""

    def __init__(
        self,
        disk: Disk,
        off_loop: OffLoop,
        opener: OffLoop,
        wall_ms: Callable[[], int],
        jitter: Callable[[int], int],
        loaded: Loaded,
        traffic: Traffic,
        chores: Chores,
    ) -> None:
        self._disk, self._off_loop, self._opener, self._wall_ms, self._jitter = disk, off_loop, opener, wall_ms, jitter
        self._loaded, self._traffic, self._chores = loaded, traffic, chores
        self.names: dict[TopicPartition, str] = {}
        self.logs: dict[TopicPartition, Log] = {}

    def found(self, key: TopicPartition, name: str) -> None:
        """Add the directory of a future log that was found at start.

        A second future log of the same partition is removed.
        """
        if key in self.names:
            self._chores.remove_later([name], 0)
        else:
            self.names[key] = name

    async def create(self, key: TopicPartition, topic_id: bytes, config: LogConfig, start_offset: int) -> Log:
        """Create an empty future log that begins at `start_offset`. If OSError is raised, it was not created."""
        name = free_name(self._disk, key, topic_id, FUTURE)
        self._disk.make_directory(name)
        try:
            replace(self._disk, f"{name}/{METADATA}", encode_metadata(topic_id))
            log = await self._open(key, name, config, start_offset)
        except OSError:
            remove_tree(self._disk, name)
            raise
        self.names[key], self.logs[key] = name, log
        return log

    async def open(self, key: TopicPartition, topic_id: bytes, config: LogConfig) -> Log:
        """Open a future log that was found at start. Raise CorruptLog if it is damaged or belongs to another topic."""
        name = self.names[key]
        if await self.topic_id(key) != topic_id:
            raise CorruptLog(f"{self._disk.path}/{name} belongs to another topic of the same name")
        self.logs[key] = log = await self._open(key, name, config, 0)
        return log

    async def topic_id(self, key: TopicPartition) -> bytes | None:
        """Return the topic id of a future log, or None if its partition.metadata is missing or invalid."""
        try:
            return decode_metadata(await read_whole(self._disk, f"{self.names[key]}/{METADATA}"))
        except FileNotFoundError:
            return None

    async def _open(self, key: TopicPartition, name: str, config: LogConfig, start_offset: int) -> Log:
        log = await Log.open(
            self._disk,
            name,
            config,
            off_loop=self._opener,
            now_ms=self._wall_ms(),
            log_start_offset=start_offset,
            jitter=self._jitter,
            loaded=self._loaded,
            traffic=self._traffic,
            wall_ms=self._wall_ms,
            key=key,
            due=self._chores.due,
        )
        log.flusher.is_future = True
        return log

    async def remove_deleted(self, key: TopicPartition) -> None:
        """Remove the dropped files of a future log at once, since no client reads it.

        Raise OSError if a file cannot be removed.
        """
        for path in self.logs[key].take_deleted() if key in self.logs else ():
            await self._off_loop(remove_tree, self._disk, path)

    def drop(self, key: TopicPartition) -> None:
        """Delete a future log. If OSError is raised, it still exists."""
        self._chores.remove_later([self._put_away(key, DELETE)], 0)

    def set_aside(self, key: TopicPartition) -> None:
        """Rename a future log that belongs to no partition, so that the operator can examine it.

        If OSError is raised, it keeps its name.
        """
        name = self.names[key]
        away = self._put_away(key, STRAY)
        logger.warning(
            "%s/%s is a copy of a partition that does not exist, and is set aside as %s", self._disk.path, name, away
        )

    def _put_away(self, key: TopicPartition, why: str) -> str:
        log, name = self.logs.pop(key, None), self.names.pop(key)
        if log is not None:
            log.abandon()
        away = free_name(self._disk, key, bytes(16), why)
        self._disk.rename(name, away)
        return away

    def take(self, key: TopicPartition) -> Log:
        """Remove a future log from this collection and return it as the partition's current log."""
        del self.names[key]
        log = self.logs.pop(key)
        log.flusher.is_future = False
        return log


def free_name(disk: Disk, key: TopicPartition, topic_id: bytes, why: str) -> str:
    """Return an unused directory name for a deleted or stray partition, or for a future log.

    The name has the digits of the topic id, or of the next number after it that no directory has.
    """
    unique = int.from_bytes(topic_id, "big")
    while disk.exists(name := away_name(key, f"{unique:032x}", why)):
        unique = (unique + 1) % 2**128
    return name
