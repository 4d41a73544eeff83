"""What a log directory does by the way: fsync what has rolled or waited long enough, remove what was let go."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from pykbroker.core.errors import ApiError
from pykbroker.storage.checkpoints import TopicPartition
from pykbroker.storage.log import Log
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)

CHORE_INTERVAL_S = 1
CHECKPOINT_INTERVAL_MS = 60_000
"""`log.flush.offset.checkpoint.interval.ms`, and that for log starts."""
EXPIRY_INTERVAL_MS = 600_000
"""`producer.id.expiration.check.interval.ms`"""


class Chores:
    """One round a second, over all logs of the directory. Times in ms, of the wall clock."""

    def __init__(self, disk: Disk, logs: Mapping[TopicPartition, Log], wall_ms: Callable[[], int],
                 checkpoint: Callable[[], Awaitable[None]]) -> None:
        self._disk, self._logs, self._wall_ms, self._checkpoint = disk, logs, wall_ms, checkpoint
        self._doomed: list[tuple[int, str]] = []  # (when, file or directory)
        self._dirty_since: dict[Log, int] = {}
        self._next_checkpoint_ms = self._next_expiry_ms = 0

    def doom(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these files, or directories with what is in them, in `delay_ms`."""
        when = self._wall_ms() + delay_ms
        self._doomed += ((when, path) for path in paths)

    async def run(self) -> None:
        """Until cancelled. OSError: the disk failed."""
        self._next_checkpoint_ms = self._wall_ms() + CHECKPOINT_INTERVAL_MS
        self._next_expiry_ms = self._wall_ms() + EXPIRY_INTERVAL_MS
        while True:
            await trio.sleep(CHORE_INTERVAL_S)
            await self.round()

    async def round(self) -> None:
        """Do what is due."""
        now_ms = self._wall_ms()
        for log in list(self._logs.values()):
            self.doom(log.take_doomed(), log.config.file_delete_delay_ms)
            if log.failed is None and (log.has_rolled or self._waited_enough(log, now_ms)):
                try:
                    await log.flush()
                except ApiError as deleted:
                    logger.info("%s is not flushed: %s", log.directory, deleted)
        if now_ms >= self._next_checkpoint_ms:
            self._next_checkpoint_ms = now_ms + CHECKPOINT_INTERVAL_MS
            await self._checkpoint()
        if now_ms >= self._next_expiry_ms:
            self._next_expiry_ms = now_ms + EXPIRY_INTERVAL_MS
            for log in self._logs.values():
                log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
        self._remove(now_ms)

    def _waited_enough(self, log: Log, now_ms: int) -> bool:
        """`flush.ms` have gone since it was first seen to have something to flush."""
        if log.recovery_point >= log.log_end_offset:
            self._dirty_since.pop(log, None)
            return False
        return now_ms - self._dirty_since.setdefault(log, now_ms) >= log.config.flush_ms

    def _remove(self, now_ms: int) -> None:
        due = [path for when, path in self._doomed if when <= now_ms]
        self._doomed = [(when, path) for when, path in self._doomed if when > now_ms]
        for path in due:
            try:
                self._remove_tree(path)
            except OSError as failure:
                logger.warning("%s/%s cannot be removed: %s", self._disk.path, path, failure)

    def _remove_tree(self, path: str) -> None:
        if self._disk.is_directory(path):
            for name in self._disk.names(path):
                self._disk.remove(f"{path}/{name}")
        if self._disk.exists(path):
            self._disk.remove(path)
