"""One directory of log.dirs: its partitions' logs, its checkpoints, and the chores that keep both in order.

1. The lock file keeps other brokers out while it is open.
2. `.kafka_cleanshutdown` is taken away before anything is written, and put there after everything is durable. Where a
   log could not be opened it is not: the next start must look at it as closely.
3. A failure of the disk itself (`refusals.py`) is final: `failed` is set, and no clean shutdown is claimed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import trio

from pykbroker.core.errors import ApiError, StartError
from pykbroker.storage.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    TopicPartition,
    decode_offsets,
    encode_offsets,
)
from pykbroker.storage.chores import Chores, remove_tree
from pykbroker.storage.config import LogConfig
from pykbroker.storage.errors import CorruptLog
from pykbroker.storage.log import Log
from pykbroker.storage.opening import Loaded
from pykbroker.storage.partition_directory import (
    ASIDE,
    DELETE,
    DOOMED,
    METADATA,
    STRAY,
    PartitionDirectory,
    away_name,
    decode_metadata,
    directory_name,
    encode_metadata,
    parse_name,
)
from pykbroker.storage.refusals import is_of_the_disk
from pykbroker.storage.small_files import read_whole, replace, replace_durably
from pykbroker.world.disk import Disk, Locked
from pykbroker.world.off_loop import OffLoop

logger = logging.getLogger(__name__)

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
METADATA_TOPIC = "__cluster_metadata"
CLOSING_AT_ONCE = 8
CHORE_INTERVAL_S = 1
CHECKPOINT_INTERVAL_MS = 60_000
"""`log.flush.offset.checkpoint.interval.ms`, and that for log starts."""
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED)


class LogDirectory:
    """`logs` are those that are open, by topic and partition. `clean`: the last broker here left in order."""

    def __init__(self, disk: Disk, off_loop: OffLoop, wall_ms: Callable[[], int], jitter: Callable[[], float],
                 checkpoints: Mapping[str, dict[TopicPartition, int]], *, clean: bool) -> None:
        self.path, self.clean = disk.path, clean
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: OSError | None = None
        self._disk, self._off_loop, self._wall_ms = disk, off_loop, wall_ms
        self._jitter = lambda below: int(jitter() * below)
        self._loaded = Loaded()
        self._recovery_points, self._log_starts = checkpoints[RECOVERY_POINTS], checkpoints[LOG_STARTS]
        self._high_watermarks = checkpoints[HIGH_WATERMARKS]
        self._topic_ids: dict[TopicPartition, bytes | None] = {}
        self._offline: set[TopicPartition] = set()
        self._writing = trio.Lock()
        self._is_left = False
        self._chores = Chores(disk, self.logs, wall_ms)

    @classmethod
    async def open(cls, disk: Disk, *, off_loop: OffLoop, wall_ms: Callable[[], int],
                   jitter: Callable[[], float]) -> LogDirectory:
        """Lock and read a formatted directory. `jitter` draws from 0 to 1. StartError: another broker has it."""
        try:
            disk.lock(LOCK)
        except Locked as held:
            raise StartError(f"{disk.path} is in use by another broker ({held}): stop that one, or name another "
                             "directory in log.dirs") from held
        checkpoints = {name: await _offsets(disk, name) for name in CHECKPOINTS}
        clean = disk.exists(CLEAN_SHUTDOWN)
        if clean:
            disk.remove(CLEAN_SHUTDOWN)
            await disk.sync_directory("")
        if not disk.exists(CLEANED):
            replace(disk, CLEANED, b"")
        directory = cls(disk, off_loop, wall_ms, jitter, checkpoints, clean=clean)
        await directory._look()
        return directory

    # Partitions

    async def _look(self) -> None:
        """Find the partitions; go on with deletions that were under way."""
        for name in self._disk.names(""):
            if not self._disk.is_directory(name) or ASIDE.fullmatch(name):
                continue
            if DOOMED.fullmatch(name):
                self._chores.doom([name], LogConfig().file_delete_delay_ms)
            elif found := parse_name(name):
                self._topic_ids[found] = await self._topic_id(name)
            elif name != "lost+found":
                logger.warning("%s/%s is no partition's directory and is left alone", self.path, name)

    async def _topic_id(self, directory: str) -> bytes | None:
        try:
            return decode_metadata(await read_whole(self._disk, f"{directory}/{METADATA}"))
        except FileNotFoundError:
            return None
        except OSError as refusal:
            logger.error("%s/%s/%s cannot be read: %s", self.path, directory, METADATA, refusal)
            return None

    def partitions(self) -> list[PartitionDirectory]:
        """The partitions that have a directory, that of the cluster's metadata left out."""
        return [PartitionDirectory(*key, topic_id) for key, topic_id in self._topic_ids.items()
                if key[0] != METADATA_TOPIC]

    def high_watermark(self, topic: str, partition: int) -> int:
        """As it was last checkpointed, 0 if it never was."""
        return self._high_watermarks.get((topic, partition), 0)

    async def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> Log:
        """Recover a partition's log. CorruptLog: it is damaged, or it is another topic's; it must not be served.

        A directory that does not say whose it is, and in which nothing ever was, is what an attempt to make it left.
        """
        self._offline.add((topic, partition))
        if self._topic_ids.get((topic, partition)) is None and self._is_bare(topic, partition):
            self._claim(topic, partition, topic_id)
        found_id = self._topic_ids.get((topic, partition))
        if found_id != topic_id:
            says = "does not say which topic it is of" if found_id is None else "is of another topic of that name"
            raise CorruptLog(f"{self.path}/{directory_name(topic, partition)}/{METADATA} {says}")
        log = await self._open(topic, partition, config)
        self._offline.discard((topic, partition))
        return log

    async def create_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> Log:
        """Make a partition's directory and an empty log, or nothing: OSError.

        It is durable with the log's first flush, or checkpoint.
        """
        name = directory_name(topic, partition)
        self._disk.make_directory(name)
        try:
            self._claim(topic, partition, topic_id)
            return await self._open(topic, partition, config)
        except OSError:
            self._forget(topic, partition)
            with suppress(OSError):
                remove_tree(self._disk, name)
            raise

    def _claim(self, topic: str, partition: int, topic_id: bytes) -> None:
        """The directory is this topic's from now on, and what was known of another one's there is not of it."""
        replace(self._disk, f"{directory_name(topic, partition)}/{METADATA}", encode_metadata(topic_id))
        self._forget(topic, partition)
        self._topic_ids[topic, partition] = topic_id

    def _is_bare(self, topic: str, partition: int) -> bool:
        """Whether its directory holds no batch, and nothing says that it ever did."""
        if self._recovery_points.get((topic, partition)) or self._high_watermarks.get((topic, partition)):
            return False
        name = directory_name(topic, partition)
        return not any(self._disk.size(f"{name}/{file}") for file in self._disk.names(name) if file.endswith(".log"))

    def _forget(self, topic: str, partition: int) -> bytes | None:
        """Whose the directory was."""
        for checkpoint in (self._recovery_points, self._log_starts, self._high_watermarks):
            checkpoint.pop((topic, partition), None)
        return self._topic_ids.pop((topic, partition), None)

    async def _open(self, topic: str, partition: int, config: LogConfig) -> Log:
        key = topic, partition
        self.logs[key] = log = await Log.open(
            self._disk, directory_name(topic, partition), config, off_loop=self._off_loop, now_ms=self._wall_ms(),
            recovery_point=self._recovery_points.get(key, 0), log_start_offset=self._log_starts.get(key, 0),
            clean=self.clean, jitter=self._jitter, loaded=self._loaded)
        return log

    async def delete_logs(self, topic: str, partitions: Iterable[int]) -> None:
        """These partitions are gone at once, their files after `file.delete.delay.ms`. Those offline go, too.

        What the disk refuses to rename keeps its name, and at the next start it is a stray.
        """
        for partition in partitions:
            log = self.logs.pop((topic, partition), None)
            self._offline.discard((topic, partition))
            if log is not None:
                log.abandon()
            if away := await self._put_away(topic, partition, DELETE):
                self._chores.doom([away], (log.config if log else LogConfig()).file_delete_delay_ms)
        await self._sync_names()

    async def set_aside(self, strays: Iterable[PartitionDirectory]) -> None:
        """Keep directories that are no partition's, under a name that says so, for the operator to look at."""
        moved = [(one, await self._put_away(one.topic, one.partition, STRAY)) for one in strays]
        for one, away in moved:
            logger.warning("%s/%s is of a topic, or a partition, that does not exist, and is set aside as %s",
                           self.path, directory_name(one.topic, one.partition), away)
        if moved:
            await self._sync_names()

    async def _put_away(self, topic: str, partition: int, why: str) -> str | None:
        """Give a partition's directory another name; None where it is not there, or the disk refuses."""
        await trio.lowlevel.checkpoint()
        name, unique = directory_name(topic, partition), int.from_bytes(self._forget(topic, partition) or b"", "big")
        try:
            while self._disk.exists(away := away_name(topic, partition, f"{unique:032x}", why)):
                unique = (unique + 1) % 2**128
            self._disk.rename(name, away)
        except FileNotFoundError:
            return None
        except OSError as failure:
            logger.error("%s/%s cannot be renamed: %s", self.path, name, failure)
            self.fail(failure)
            return None
        return away

    async def _sync_names(self) -> None:
        try:
            await self._disk.sync_directory("")
        except OSError as failure:
            self.fail(failure)

    # Upkeep

    async def run(self) -> None:
        """The chores and the checkpoints, until cancelled or the disk fails. What it refuses is tried again."""
        next_checkpoint_ms = self._wall_ms() + CHECKPOINT_INTERVAL_MS
        said: set[int | None] = set()
        while self.failed is None:
            await trio.sleep(CHORE_INTERVAL_S)
            refusals = await self._chores.round()
            if self._wall_ms() >= next_checkpoint_ms:
                next_checkpoint_ms = self._wall_ms() + CHECKPOINT_INTERVAL_MS
                try:
                    await self.checkpoint()
                except OSError as refused:
                    refusals.append(refused)
            for refusal in refusals:
                if refusal.errno not in said:
                    logger.warning("%s refuses some upkeep, which is tried again: %s", self.path, refusal)
                self.fail(refusal)
            said = {refusal.errno for refusal in refusals}

    def fail(self, failure: OSError) -> None:
        """The disk refused something. If that speaks of the whole disk, nothing that it says later counts."""
        if self.failed is None and is_of_the_disk(failure):
            logger.error("%s failed: %s; its partitions go offline", self.path, failure)
            self.failed = failure

    def set_offline(self, topic: str, partition: int) -> None:
        """This partition's log does not hold: the next start must look at it as closely as after a crash."""
        self._offline.add((topic, partition))

    async def checkpoint(self) -> None:
        """Write down how far each log is durable, and where it starts. One that is not yet safe itself is left out."""
        placed = {key: log for key, log in list(self.logs.items()) if await self._is_placed(log)}
        points = {key: log.recovery_point for key, log in placed.items()}
        starts = {key: log.log_start_offset for key, log in placed.items() if log.starts_inside}
        await self._write(RECOVERY_POINTS, self._unopened(self._recovery_points) | points)
        await self._write(LOG_STARTS, self._unopened(self._log_starts) | starts)

    async def _is_placed(self, log: Log) -> bool:
        try:
            await log.place()
        except ApiError as deleted:
            logger.info("%s is left out of the checkpoint: %s", log.directory, deleted)
            return False
        except OSError as refusal:
            logger.warning("%s/%s is left out of the checkpoint: %s", self.path, log.directory, refusal)
            self.fail(refusal)
            return False
        return True

    async def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write down how far each partition is committed."""
        await self._write(HIGH_WATERMARKS, self._unopened(self._high_watermarks) | dict(high_watermarks))

    async def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """One writer at a time, and none after the directory was left: it may be another broker's."""
        async with self._writing:
            if not self._is_left:
                await replace_durably(self._disk, name, encode_offsets(offsets))

    def _unopened(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Of partitions that are here but offline: what was last known of them stays known."""
        return {key: offset for key, offset in offsets.items()
                if key in self._topic_ids and (key not in self.logs or key in self._offline)}

    async def close(self, *, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Leave in order: close the logs, write the checkpoints, say that the shutdown was clean, unlock."""
        try:
            await self._close_logs()
            await self.checkpoint()
            await self.checkpoint_high_watermarks(high_watermarks)
            if self.failed is None and not self._offline and not any(log.failed for log in self.logs.values()):
                content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
                await replace_durably(self._disk, CLEAN_SHUTDOWN, content.encode())
        except OSError as failure:
            self.fail(failure)
        finally:
            self._is_left = True
            self._disk.unlock(LOCK)

    async def _close_logs(self) -> None:
        """All of them, some at a time: each may wait for an fsync."""
        limit = trio.CapacityLimiter(CLOSING_AT_ONCE)

        async def close(key: TopicPartition, log: Log) -> None:
            async with limit:
                try:
                    await log.close()
                except (CorruptLog, OSError) as failure:
                    logger.error("%s/%s is not closed in order: %s", self.path, log.directory, failure)
                    self.set_offline(*key)
                    if isinstance(failure, OSError):
                        self.fail(failure)

        async with trio.open_nursery() as nursery:
            for key, log in self.logs.items():
                nursery.start_soon(close, key, log)


async def _offsets(disk: Disk, name: str) -> dict[TopicPartition, int]:
    try:
        return decode_offsets(await read_whole(disk, name))
    except FileNotFoundError:
        return {}
    except CorruptCheckpoint as damage:
        logger.warning("%s/%s does not hold and is not used: %s", disk.path, name, damage)
        return {}
