"""Damaged logs of a log directory, which are kept until the partition has been fetched anew from its leader.

1. The file `pykbroker.damaged` marks the directory of a damaged log. The directory is then renamed with the suffix
   `-stray`, which Apache Kafka leaves alone, too. A log that is marked is never opened.
2. The file `pykbroker.fetched-anew` marks the directory of the log that replaces it, from before its first byte until
   it has all committed records.
3. A damaged log is removed once the new one has reached the damaged log's high watermark. Otherwise the leader lacks
   records that were committed, and the damaged log is kept for the operator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.chores import Chores
from pykbroker.storage.directory.future_logs import free_name
from pykbroker.storage.directory.partition_directories import PartitionDirectories
from pykbroker.storage.directory.root_checkpoints import RootCheckpoints
from pykbroker.storage.files.partition_directory import DELETE, STRAY, directory_name
from pykbroker.storage.files.small_files import read_disposable, replace_durably
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)

DAMAGED, ANEW = "pykbroker.damaged", "pykbroker.fetched-anew"
REMOVAL_MS = 0
"""The delay of the removal of a damaged log, which nobody reads."""


class DamageNote(msgspec.Struct, frozen=True):
    """The content of `pykbroker.damaged`: the partition, and what must be known to remove its damaged log later.

    `is_last` is true if the log was the last one of the ISR, so that others may lack its records.
    """

    topic: str
    partition: int
    high_watermark: int
    is_last: bool = False


class DamagedLogs:
    """The damaged logs of a log directory that were set aside, by the name of their directories."""

    def __init__(
        self,
        disk: Disk,
        directories: PartitionDirectories,
        checkpoints: RootCheckpoints,
        logs: MutableMapping[TopicPartition, Log],
        offline: set[TopicPartition],
        chores: Chores,
        fail: Callable[[OSError], None],
    ) -> None:
        self._disk, self._directories, self._checkpoints, self._logs = disk, directories, checkpoints, logs
        self._offline, self._chores, self._fail = offline, chores, fail
        self._aside: dict[str, DamageNote] = {}

    async def find(self) -> None:
        """Find the damaged logs that an earlier run has set aside."""
        for name in self._directories.aside:
            content = await read_disposable(self._disk, f"{name}/{DAMAGED}")
            if content is not None:
                try:
                    self._aside[name] = msgspec.json.decode(content, type=DamageNote)
                except msgspec.DecodeError as error:
                    logger.warning("%s/%s/%s is invalid and is ignored: %s", self._disk.path, name, DAMAGED, error)

    def is_damaged(self, key: TopicPartition) -> bool:
        """Whether the log of this partition was found damaged in an earlier run, which did not set it aside."""
        return self._disk.exists(f"{directory_name(key)}/{DAMAGED}")

    def is_anew(self, key: TopicPartition) -> bool:
        """Whether the log of this partition replaces a damaged one, and may lack committed records."""
        return self._disk.exists(f"{directory_name(key)}/{ANEW}")

    def was_set_aside(self, key: TopicPartition) -> bool:
        return any((note.topic, note.partition) == key for note in self._aside.values())

    async def set_aside(self, key: TopicPartition, high_watermark: int, *, is_last: bool) -> None:
        """Close the log of a partition and rename its directory, if there is one. Raise OSError if that fails."""
        name = directory_name(key)
        self.let_go(key)
        if not self._disk.exists(name):
            return
        note = DamageNote(key.topic, key.partition, high_watermark, is_last)
        # Before the rename: after a crash in between, the next start must not open this log.
        await replace_durably(self._disk, f"{name}/{DAMAGED}", msgspec.json.encode(note))
        away = await self._directories.rename(key, STRAY)
        self._aside[away] = note
        await self._disk.sync_directory("")
        # After the rename: as long as the log has its name, these offsets tell what it must have.
        await self._checkpoints.erase([key])
        self._offline.discard(key)
        logger.warning("%s: the damaged log is kept as %s/%s until it is fetched anew", key, self._disk.path, away)

    def let_go(self, key: TopicPartition) -> None:
        """Close the files of a partition's log without writing anything."""
        log = self._logs.pop(key, None)
        if log is not None:
            log.abandon()

    async def begin_anew(self, key: TopicPartition) -> None:
        """Create the directory of the log that will replace a damaged one, durably marked. Raise OSError."""
        name = directory_name(key)
        if not self._disk.exists(name):
            self._disk.make_directory(name)
        await replace_durably(self._disk, f"{name}/{ANEW}", b"")
        await self._disk.sync_directory("")

    async def end(self, key: TopicPartition, high_watermark: int) -> None:
        """Remove the damaged logs of a partition whose new log has all records up to `high_watermark`, and its mark."""
        try:
            for away, note in list(self._aside.items()):
                if (note.topic, note.partition) == key:
                    self._release(key, away, note, high_watermark)
                    del self._aside[away]
            await self._disk.sync_directory("")
            # The mark goes last: with it, a start does not take the new log for complete.
            if self.is_anew(key):
                self._disk.remove(f"{directory_name(key)}/{ANEW}")
                await self._disk.sync_directory(directory_name(key))
        except OSError as refusal:
            self._fail(refusal)

    def _release(self, key: TopicPartition, away: str, note: DamageNote, high_watermark: int) -> None:
        if not note.is_last and high_watermark >= note.high_watermark:
            deleted = free_name(self._disk, key, bytes(16), DELETE)
            self._disk.rename(away, deleted)
            self._chores.remove_later([deleted], REMOVAL_MS)
            return
        self._disk.remove(f"{away}/{DAMAGED}")
        logger.error(
            "%s: the damaged log is kept as %s/%s, since the leader may lack committed records: the damaged log had"
            " them up to offset %d, and the partition has them up to %d; remove the directory once you have read it",
            key,
            self._disk.path,
            away,
            note.high_watermark,
            high_watermark,
        )
