"""The background work of a log directory: flushing logs after a roll or `flush.ms`, and removing deleted files.

A round visits only the logs that have noted work (`Opening.note_work`), so that thousands of quiet logs cost nothing.
The look for directories that have vanished visits all logs, but only every few rounds.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping, Sequence

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LONG_MAX
from pykbroker.storage.segments.opening import DueLogs
from pykbroker.world.disk import Disk
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.portions import portions

logger = logging.getLogger(__name__)

EXPIRY_INTERVAL_MS = 600_000
"""The value of `producer.id.expiration.check.interval.ms`."""
LOOK_ROUNDS = 4
"""The number of rounds after which the directories of all logs with new records are looked for."""


class Chores:
    """The background work on all logs of a directory. Times are in ms since 1970."""

    def __init__(
        self, disk: Disk, off_loop: OffLoop, logs: Mapping[TopicPartition, Log], wall_ms: Callable[[], int]
    ) -> None:
        self._disk, self._off_loop, self._logs, self._wall_ms = disk, off_loop, logs, wall_ms
        self.due: DueLogs = {}
        self._to_remove: list[tuple[int, str]] = []  # (time of removal, file or directory)
        self._dirty_since: dict[TopicPartition, int] = {}
        self._ends: dict[Log, int] = {}
        """The end of each log at the last look whether its directory exists."""
        self._rounds = 0
        self._next_expiry_ms = wall_ms() + EXPIRY_INTERVAL_MS

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these files, or directories with their files, after `delay_ms`."""
        when = self._wall_ms() + delay_ms
        self._to_remove += ((when, path) for path in paths)

    async def round(self) -> list[OSError]:
        """Do all work that is due and return the OSErrors. An error of one log does not stop the work on other logs.

        Files are removed first, which frees space on the disk.
        """
        now_ms, due = self._wall_ms(), self._take_due()
        for few in portions(due.values()):
            for log in few:
                self.remove_later(log.take_deleted(), log.config.file_delete_delay_ms)
            await trio.lowlevel.checkpoint()
        await self._remove(now_ms)
        refusals = []
        for some in portions(due.items()):
            for key, log in some:
                if self._is_due(key, log, now_ms) and (refusal := await self._flush(log)):
                    refusals.append(refusal)
                # Appends note no work, so that a log with `flush.ms` is visited in every round.
                if log.failed is None and log.config.flush_ms < LONG_MAX:
                    self.due[key] = None
            await trio.lowlevel.checkpoint()
        self._rounds += 1
        if self._rounds % LOOK_ROUNDS == 0:
            await self._look_for_directories()
        if now_ms >= self._next_expiry_ms:
            self._next_expiry_ms = now_ms + EXPIRY_INTERVAL_MS
            for few in portions(self._logs.values()):
                for log in few:
                    log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
                await trio.lowlevel.checkpoint()
        return refusals

    def _take_due(self) -> dict[TopicPartition, Log]:
        """Return the logs that have noted work, and forget the notes. What is noted during a round is for the next."""
        keys = list(self.due)
        self.due.clear()
        for key in keys:
            if key not in self._logs:
                self._dirty_since.pop(key, None)
        return {key: self._logs[key] for key in keys if key in self._logs}

    async def _look_for_directories(self) -> None:
        """Take the logs with new records offline whose directories have vanished.

        The open files of such a log take records until the segment rolls, and the next start would not find these
        records.
        """
        ends = {}
        for few in portions(self._logs.values()):
            for log in few:
                ends[log] = end = log.log_end_offset
                if self._ends.get(log) == end or log.failed is not None or log.is_deleted:
                    continue
                if not self._disk.exists(log.directory):
                    log.flusher.failed = FileNotFoundError(errno.ENOENT, "No such file or directory", log.directory)
                    logger.error("%s/%s goes offline: the directory has vanished", self._disk.path, log.directory)
            await trio.lowlevel.checkpoint()
        self._ends = ends

    def _is_due(self, key: TopicPartition, log: Log, now_ms: int) -> bool:
        return log.failed is None and (bool(log.segments.unsynced) or self._waited_enough(key, log, now_ms))

    async def _flush(self, log: Log) -> OSError | None:
        try:
            await log.flush()
        except ApiError as deleted:
            logger.info("%s: not flushed: %s", log.directory, deleted)
        except CorruptLog as damage:
            logger.error("%s/%s goes offline: %s", self._disk.path, log.directory, damage)
        except OSError as refusal:
            return refusal
        return None

    def _waited_enough(self, key: TopicPartition, log: Log, now_ms: int) -> bool:
        """Whether the log has had unflushed records for at least `flush.ms`, of which each round takes note."""
        if log.recovery_point >= log.log_end_offset or log.config.flush_ms == LONG_MAX:
            self._dirty_since.pop(key, None)
            return False
        return now_ms - self._dirty_since.setdefault(key, now_ms) >= log.config.flush_ms

    async def _remove(self, now_ms: int) -> None:
        """Remove files in a thread: the kernel takes 50 to 200 ms to free a segment of 1 GiB."""
        due = [path for when, path in self._to_remove if when <= now_ms]
        self._to_remove = [(when, path) for when, path in self._to_remove if when > now_ms]
        for path in due:
            try:
                await self._off_loop(remove_tree, self._disk, path)
            except OSError as failure:
                logger.warning("%s/%s cannot be removed: %s", self._disk.path, path, failure)


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a file, or a directory with its files, if it exists."""
    if disk.is_directory(path):
        for name in disk.names(path):
            disk.remove(f"{path}/{name}")
    if disk.exists(path):
        disk.remove(path)
