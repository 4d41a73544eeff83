"""One directory of `log.dirs`: its partitions' logs, its checkpoints, and the background work on both.

1. A lock file prevents other brokers from using the directory.
2. `.kafka_cleanshutdown` is removed before anything is written, and written again after everything is durable. It is
   not written if a log went offline, or was found damaged after a crash. The next start then verifies all logs as after
   a crash.
3. An error of the disk itself (`refusals.py`) takes the directory offline for good: `failed` is set, and the shutdown
   is not marked as clean.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import trio

from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.checkpoint_writer import CheckpointWriter
from pykbroker.storage.directory.chores import Chores, remove_tree
from pykbroker.storage.directory.damaged_logs import DAMAGED, DamagedLogs
from pykbroker.storage.directory.future_logs import FutureLogs, free_name
from pykbroker.storage.directory.partition_directories import PartitionDirectories
from pykbroker.storage.directory.root_checkpoints import RootCheckpoints
from pykbroker.storage.directory.statistics import DirectoryStatistics
from pykbroker.storage.directory.truncation import Truncation
from pykbroker.storage.files import lost_writes
from pykbroker.storage.files.checkpoints import CLEANED, HIGH_WATERMARKS, LOG_STARTS
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.lock import LOCK, lock_directory
from pykbroker.storage.files.partition_directory import (
    DELETE,
    METADATA,
    STRAY,
    PartitionDirectory,
    directory_name,
    encode_metadata,
)
from pykbroker.storage.files.refusals import VANISHED, is_of_the_disk
from pykbroker.storage.files.room import require_room
from pykbroker.storage.files.small_files import read_disposable, replace, replace_durably
from pykbroker.storage.files.traffic import Traffic
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.opener import Opener
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.opening import LOADED_MAX, Loaded
from pykbroker.world.disk import Disk
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.portions import portions
from wire.sentinels import NO_BROKER_EPOCH

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLOSING_AT_ONCE = 64
CHORE_INTERVAL_S = 1
CHECKPOINT_INTERVAL_MS = 60_000
"""The value of `log.flush.offset.checkpoint.interval.ms` and of `log.flush.start.offset.checkpoint.interval.ms`."""


class LogDirectory:
    """One directory of `log.dirs`.

    `logs` has the open logs by partition. `clean` is true if the previous shutdown was clean.
    """

    def __init__(
        self,
        disk: Disk,
        off_loop: OffLoop,
        wall_ms: Callable[[], int],
        jitter: Callable[[], float],
        checkpoints: RootCheckpoints,
        marker: bytes | None,
        opener: OffLoop,
        loaded_max: int,
    ) -> None:
        self.path, self.clean = disk.path, marker is not None
        self.clean_epoch = broker_epoch_of(marker)
        """The broker epoch in which the last run shut down cleanly, -1 if it is unknown."""
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: OSError | None = None
        self.failure = trio.Event()
        """Set once the directory has failed."""
        self._disk, self._off_loop, self._opener, self._wall_ms = disk, off_loop, opener, wall_ms
        self._jitter = lambda below: int(jitter() * below)
        self._loaded, self._traffic = Loaded(loaded_max), Traffic()
        self.root_checkpoints, self._marker = checkpoints, marker
        self._directories = PartitionDirectories(disk, checkpoints, self.fail, clean=self.clean)
        self.partitions = self._directories.partitions
        self._topic_ids = self._directories.topic_ids
        self._offline: set[TopicPartition] = set()
        self.lost: set[TopicPartition] = set()
        """The partitions whose directory is missing. Their checkpointed offsets are kept."""
        known = self._topic_ids.keys()
        self.checkpoints = CheckpointWriter(disk, checkpoints, self.logs, known, self._offline, self.lost, self.fail)
        self.truncation = Truncation(self.logs, checkpoints, self.checkpoints)
        self._chores = Chores(disk, off_loop, self.logs, wall_ms)
        self.futures = FutureLogs(
            disk, off_loop, opener, wall_ms, self._jitter, self._loaded, self._traffic, self._chores
        )
        self.damaged = DamagedLogs(
            disk, self._directories, checkpoints, self.logs, self._offline, self._chores, self.fail
        )

    @classmethod
    async def open(
        cls,
        disk: Disk,
        *,
        off_loop: OffLoop,
        wall_ms: Callable[[], int],
        jitter: Callable[[], float],
        opener: OffLoop | None = None,
        loaded_max: int = LOADED_MAX,
    ) -> LogDirectory:
        """Lock and read a formatted directory. Raise StartError if another broker has locked it.

        `jitter` returns a random number from 0 to 1. The directories of a broker share an `opener`. At most
        `loaded_max` sealed segments are open at a time.
        """
        lock_directory(disk)
        try:
            checkpoints, marker = await RootCheckpoints.read(disk), await read_disposable(disk, CLEAN_SHUTDOWN)
            directory = cls(
                disk, off_loop, wall_ms, jitter, checkpoints, marker, opener or Opener(off_loop), loaded_max
            )
            await directory._directories.find(directory._chores, directory.futures)
            await directory.damaged.find()
            # The marker goes durably before the first write: a crash from now on must not look like a clean shutdown.
            if disk.exists(CLEAN_SHUTDOWN):
                disk.remove(CLEAN_SHUTDOWN)
                await disk.sync_directory("")
            # Once this file exists, a log that it does not list was never made durable (`UNLISTED`). It must not be
            # written over logs whose recovery points were lost with it.
            if not directory._topic_ids:
                await checkpoints.begin()
            if not disk.exists(CLEANED):
                replace(disk, CLEANED, b"")
        except BaseException:
            disk.unlock(LOCK)
            raise
        return directory

    def statistics(self) -> Steps[DirectoryStatistics]:
        """Return the current sizes, and the counters since the start."""
        logs, traffic, segments, size = list(self.logs.values()), self._traffic, 0, 0
        for log in logs:
            segments += log.segments.count
            size += log.size_bytes
            yield
        return DirectoryStatistics(
            self.path,
            self.failed is not None,
            len(logs),
            segments,
            size,
            traffic.bytes_in,
            traffic.bytes_out,
            traffic.flushes,
        )

    def exists(self, path: str) -> bool:
        """Whether a file or a directory exists. The empty path is the log directory."""
        return self._disk.exists(path)

    def high_watermark(self, key: TopicPartition) -> int:
        """Return the last checkpointed high watermark, 0 without one."""
        return self.root_checkpoints.left[HIGH_WATERMARKS].get(key, 0)

    async def open_log(self, key: TopicPartition, topic_id: bytes, config: LogConfig) -> Log:
        """Recover a partition's log. Raise CorruptLog if the log is damaged or belongs to another topic.

        A crash may leave a new partition's directory without a topic id and without an offset in any checkpoint. Such a
        directory gets the topic id `topic_id`. If a log is found damaged after a clean shutdown, the next shutdown is
        still marked as clean. The next start then refuses the log again. A start after a crash might accept a part of
        it.
        """
        self._offline.add(key)
        try:
            log = await self._open_own(key, topic_id, config)
        except CorruptLog:
            if self.clean:
                self._offline.discard(key)
            raise
        self._offline.discard(key)
        return log

    async def _open_own(self, key: TopicPartition, topic_id: bytes, config: LogConfig) -> Log:
        if self.damaged.is_damaged(key):
            raise CorruptLog(f"{self.path}/{directory_name(key)}/{DAMAGED} says that an earlier run found it damaged")
        if self._topic_ids.get(key) is None and self._directories.is_bare(key):
            if self.damaged.was_set_aside(key):
                await self.damaged.begin_anew(key)
            await self._directories.claim(key, topic_id)
        found_id = self._topic_ids.get(key)
        if found_id != topic_id:
            says = (
                "does not say which topic it is of" if found_id is None else "belongs to another topic of the same name"
            )
            raise CorruptLog(f"{self.path}/{directory_name(key)}/{METADATA} {says}")
        if self._directories.lacks_segments(key):
            raise CorruptLog(f"{self.path}/{directory_name(key)} has no segment, but had records")
        return await self._open(key, config)

    async def create_log(
        self, key: TopicPartition, topic_id: bytes, config: LogConfig, *, is_anew: bool = False
    ) -> Log:
        """Create a partition's directory and an empty log. If OSError is raised, nothing was created.

        The directory becomes durable with the log's first flush, or with a checkpoint. With `is_anew` the log replaces
        a damaged one, and its directory is marked durably before.
        """
        name = directory_name(key)
        if is_anew:
            await self.damaged.begin_anew(key)
        else:
            self._disk.make_directory(name)
        try:
            await self._directories.release_name(key)
            file = self._disk.open(f"{name}/{METADATA}", create=True)
            file.append(encode_metadata(topic_id))
            file.close()
            self._topic_ids[key] = topic_id
            self.logs[key] = log = Log.create(
                self._disk,
                name,
                config,
                off_loop=self._opener,
                jitter=self._jitter,
                loaded=self._loaded,
                traffic=self._traffic,
                wall_ms=self._wall_ms,
                key=key,
                due=self._chores.due,
            )
            return log
        except OSError:
            self._directories.forget(key)
            with suppress(OSError):
                remove_tree(self._disk, name)
            raise

    async def _open(self, key: TopicPartition, config: LogConfig) -> Log:
        left = self.root_checkpoints.left
        self.logs[key] = log = await Log.open(
            self._disk,
            directory_name(key),
            config,
            off_loop=self._opener,
            now_ms=self._wall_ms(),
            recovery_point=self.root_checkpoints.recovery_point(key),
            log_start_offset=left[LOG_STARTS].get(key, 0),
            cleaned_offset=left[CLEANED].get(key, 0),
            high_watermark=left[HIGH_WATERMARKS].get(key, 0),
            clean=self.clean,
            jitter=self._jitter,
            loaded=self._loaded,
            traffic=self._traffic,
            wall_ms=self._wall_ms,
            key=key,
            due=self._chores.due,
        )
        return log

    async def delete_logs(self, keys: Collection[TopicPartition]) -> None:
        """Delete these partitions, even if they are offline. Their files are removed after `file.delete.delay.ms`.

        A directory that cannot be renamed keeps its name. The next start treats it as a stray partition.
        """
        logs = {key: self.logs.pop(key, None) for key in keys}
        for log in logs.values():
            await trio.lowlevel.checkpoint()
            if log is not None:
                log.abandon()
        self._offline.difference_update(keys)
        try:
            # Before the renames, since a new topic may get the name of a deleted one at once.
            await self.root_checkpoints.erase(keys)
        except OSError as refusal:
            logger.warning("%s: the checkpoints of deleted partitions cannot be erased: %s", self.path, refusal)
            self.fail(refusal)
        for key, log in logs.items():
            if away := await self._directories.put_away(key, DELETE):
                self._chores.remove_later([away], (log.config if log else LogConfig()).file_delete_delay_ms)
        await self.sync_names()

    async def set_aside(self, strays: Iterable[PartitionDirectory]) -> None:
        """Rename the directories of partitions that do not exist, so that the operator can examine them.

        The checkpoints of the partitions are erased first: another partition may get the same name.
        """
        strays = list(strays)
        try:
            await self.root_checkpoints.erase([one.key for one in strays])
        except OSError as refusal:
            logger.warning("%s: the checkpoints of stray partitions cannot be erased: %s", self.path, refusal)
            self.fail(refusal)
        moved = [(one, await self._directories.put_away(one.key, STRAY)) for one in strays]
        for one, away in moved:
            logger.warning(
                "%s/%s belongs to a topic or partition that does not exist, and is set aside as %s",
                self.path,
                directory_name(one.key),
                away,
            )
        if moved:
            await self.sync_names()

    async def create_copy(self, key: TopicPartition, topic_id: bytes, config: LogConfig, start: int) -> Log:
        """Create an empty future log, beginning at offset `start`, for a partition in another log directory.

        If OSError is raised, no future log was created.
        """
        await self.root_checkpoints.erase([key])
        return await self.futures.create(key, topic_id, config, start)

    def release(self, key: TopicPartition) -> None:
        """Remove a partition's log after a future log in another directory has replaced it.

        If OSError is raised, nothing changed.
        """
        log, away = self.logs[key], free_name(self._disk, key, self._topic_ids[key] or b"", DELETE)
        log.retire(away)
        del self.logs[key]
        self._directories.forget(key)
        self._chores.remove_later([away], log.config.file_delete_delay_ms)

    async def forget_released(self, key: TopicPartition) -> None:
        """Make the removal of this partition durable."""
        await self.sync_names()
        try:
            await self.root_checkpoints.erase([key])
        except OSError as refusal:
            self.fail(refusal)

    def accept(self, key: TopicPartition, topic_id: bytes) -> Log:
        """Make the future log the partition's current log. `settle` renames its directory afterwards."""
        self._topic_ids[key] = topic_id
        self.logs[key] = log = self.futures.take(key)
        self._chores.due[key] = None  # no background work has visited it yet
        return log

    async def settle(self, key: TopicPartition) -> None:
        """Rename the directory of an accepted future log to the partition's name.

        After an error, the next start renames the directory.
        """
        try:
            await self.logs[key].rename(directory_name(key))
        except OSError as refusal:
            logger.error(
                "%s: the directory of the copy of %s cannot be renamed; the next start renames it: %s",
                self.path,
                key,
                refusal,
            )
            self.fail(refusal)
        try:
            await self.root_checkpoints.list_created([key])
            await self.checkpoints.write()  # a log without a recovery point would count as one that was never synced
        except OSError as refusal:
            self.fail(refusal)

    async def promote(self, key: TopicPartition) -> None:
        """Make an unopened future log the partition's current log, if the start found no other log.

        If OSError is raised, the future log was not promoted.
        """
        topic_id = await self.futures.topic_id(key)
        self._disk.rename(self.futures.names[key], directory_name(key))
        del self.futures.names[key]
        self._topic_ids[key] = topic_id
        await self.sync_names()

    async def sync_names(self) -> None:
        """Fsync the log directory, so that the names of its partition directories are durable."""
        try:
            await self._disk.sync_directory("")
        except OSError as failure:
            self.fail(failure)

    async def run(self) -> None:
        """Do the background work and write the checkpoints until cancelled or until the disk fails.

        Work that fails with any other error is retried.
        """
        next_checkpoint_ms = self._wall_ms() + CHECKPOINT_INTERVAL_MS
        logged: set[int | None] = set()
        while self.failed is None:
            await trio.sleep(CHORE_INTERVAL_S)
            refusals = await self._chores.round()
            if self._wall_ms() >= next_checkpoint_ms:
                next_checkpoint_ms = self._wall_ms() + CHECKPOINT_INTERVAL_MS
                try:
                    await self.checkpoints.write()
                except OSError as refused:
                    refusals.append(refused)
            for refusal in refusals:
                if refusal.errno not in logged:
                    logger.warning("%s: background work failed and is retried: %s", self.path, refusal)
                self.fail(refusal)
            logged = {refusal.errno for refusal in refusals}

    def fail(self, failure: OSError) -> None:
        """Record an OSError.

        An error of the whole disk takes the directory offline for good, and so does a missing file if the directory
        itself has vanished.
        """
        has_vanished = failure.errno in VANISHED and not self.exists("")
        if self.failed is None and (has_vanished or is_of_the_disk(failure)):
            logger.error("%s failed: %s; its partitions go offline", self.path, failure)
            self.failed = failure
            self.failure.set()

    async def has_room(self) -> bool:
        """Whether the disk takes another ROOM_BYTES_MIN."""
        try:
            await self._off_loop(require_room, self._disk)
        except OSError as refusal:
            self.fail(refusal)
            return False
        return True

    def set_offline(self, key: TopicPartition) -> None:
        """Record that this partition's log is damaged. The next start verifies the log as after a crash."""
        self._offline.add(key)

    async def close(
        self, *, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int], complete: bool = True
    ) -> OSError | None:
        """Close the logs, write the checkpoints, mark the shutdown as clean, and unlock the directory.

        Unless `complete` is set, Kafka has to recover the logs if it opens the directory.

        Return the first OSError of the close, unless the disk had failed before.
        """
        failed = self.failed is not None
        try:
            await self._close_logs(complete)
            await self.checkpoints.write()
            await self.checkpoints.write_high_watermarks(high_watermarks)
            # The marker comes last, and only if all before it is durable: with it, the next start verifies almost
            # nothing.
            if self.failed is None and not self._offline and not any(log.failed for log in self.logs.values()):
                lost_writes.forget(self._disk)
                content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
                await replace_durably(self._disk, CLEAN_SHUTDOWN, content.encode())
        except OSError as failure:
            self.fail(failure)
            return None if failed else failure
        finally:
            self._unlock()
        return None

    async def discard(self) -> None:
        """Close the logs without writing anything, and unlock the directory, which the caller then removes."""
        for few in portions((*self.logs.values(), *self.futures.logs.values())):
            for log in few:
                log.abandon()
            await trio.lowlevel.checkpoint()
        self._unlock()

    async def leave_untouched(self) -> None:
        """Unlock a directory in which nothing was written. The next start finds the directory unchanged."""
        try:
            if self._marker is not None:
                await replace_durably(self._disk, CLEAN_SHUTDOWN, self._marker)
        except OSError as failure:
            self.fail(failure)
        finally:
            self._unlock()

    def _unlock(self) -> None:
        self.root_checkpoints.close()
        self._disk.unlock(LOCK)

    async def _close_logs(self, complete: bool) -> None:
        """Close all logs, several at a time, since each may wait for an fsync."""
        left = iter((*self.logs.items(), *self.futures.logs.items()))

        async def close_each() -> None:
            for key, log in left:
                try:
                    await log.close(complete=complete)
                except (CorruptLog, OSError) as failure:
                    logger.error(
                        "%s/%s cannot be closed cleanly; the next start recovers it: %s",
                        self.path,
                        log.directory,
                        failure,
                    )
                    self.set_offline(key)
                    if isinstance(failure, OSError):
                        self.fail(failure)

        async with trio.open_nursery() as nursery:
            for _ in range(CLOSING_AT_ONCE):
                nursery.start_soon(close_each)


def broker_epoch_of(marker: bytes | None) -> int:
    """Return the broker epoch in the content of `.kafka_cleanshutdown`, -1 without one."""
    try:
        return int(json.loads(marker or b"{}").get("brokerEpoch", NO_BROKER_EPOCH))
    except (ValueError, TypeError, AttributeError):
        return NO_BROKER_EPOCH
