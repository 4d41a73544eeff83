"""The log cleaner, which repeatedly compacts the log with the highest dirty ratio until no log needs compaction.

One log is compacted at a time, whatever the value of `log.cleaner.threads`, because a second compaction would take the
CPU core that clients need. A damaged log is not compacted again before the broker restarts, as in Kafka. After any
other disk error the compaction is retried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol
from weakref import WeakSet

import trio

from pykbroker.core.compaction.compactor import Compactor
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.storage.cleaner.cleaning import Cleanable, Cleaning
from pykbroker.storage.cleaner.pace import Pace
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.swap import Interrupted
from pykbroker.world.worker import Worker, WorkerGone, Workers

logger = logging.getLogger(__name__)

KEY_BYTES = 200
"""The memory in bytes that one key and its offset take in the worker process.

Kafka takes 24 bytes, since it creates no objects for them.
"""


class CleanedPartition(Protocol):
    """The interface of a partition that the cleaner uses."""

    @property
    def log(self) -> Log | None:
        """Return the log, None while the partition is offline."""

    @property
    def is_online(self) -> bool:
        """Whether the partition is online, so that its log can be read."""

    @property
    def high_watermark(self) -> int:
        """Return the offset below which all records are committed."""

    @property
    def directory(self) -> LogDirectory: ...


class CleanerSettings(NamedTuple):
    """The current values of the `log.cleaner.*` configs."""

    backoff_ms: int
    keys_max: int
    bytes_per_second: float

    @classmethod
    def of(cls, config: BrokerConfig) -> CleanerSettings:
        """Compute the settings from the broker's configs.

        `log.cleaner.dedupe.buffer.size` limits the memory for keys. The same memory holds fewer keys than in Kafka.
        """
        buffer_bytes, load = config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        return cls(
            config.log_cleaner_backoff_ms,
            max(1, int(buffer_bytes * load / KEY_BYTES)),
            max(1.0, config.log_cleaner_io_max_bytes_per_second),
        )


class Cleaner:
    """The log cleaner. It calls `partitions` and `settings` again before it compacts each log."""

    def __init__(
        self,
        partitions: Callable[[], Iterable[CleanedPartition]],
        workers: Workers,
        settings: Callable[[], CleanerSettings],
        wall_ms: Callable[[], int],
    ) -> None:
        self._partitions, self._workers, self._settings, self._wall_ms = partitions, workers, settings, wall_ms
        self._uncleanable: WeakSet[Log] = WeakSet()
        self._pace = Pace(lambda: self._settings().bytes_per_second)

    async def run(self) -> None:
        """Compact logs until cancelled."""
        while True:
            await self.round()
            await trio.sleep(self._settings().backoff_ms / 1000)

    async def round(self) -> None:
        """Compact every log that needs it. A log whose compaction fails is retried in the next call."""
        failed: set[Log] = set()
        if not (due := await self._dirtiest(failed)):
            return
        try:
            async with self._workers.start(Compactor) as worker:
                while due:
                    if not await self._clean(*due, worker):
                        failed.add(due[1].log)
                    due = await self._dirtiest(failed)
        except WorkerGone as gone:
            logger.warning(
                "log cleaner: the compaction worker ended; compaction is retried after log.cleaner.backoff.ms: %s", gone
            )

    async def _dirtiest(self, failed: set[Log]) -> tuple[CleanedPartition, Cleanable] | None:
        """Return the log with the highest dirty ratio among the logs that need compaction."""
        now_ms, found = self._wall_ms(), None
        for partition in list(self._partitions()):
            log = partition.log
            if (
                log is None
                or not partition.is_online
                or not log.config.compacted
                or log in failed
                or log in self._uncleanable
            ):
                continue
            await trio.lowlevel.checkpoint()  # a broker may have thousands of logs
            try:
                cleanable = await Cleanable.of(log, partition.high_watermark, now_ms)
            except (CorruptLog, OSError) as failure:
                self._note_failure(partition, log, failure)
                continue
            if cleanable.is_due and (found is None or cleanable.dirty_range.ratio > found[1].dirty_range.ratio):
                found = partition, cleanable
        return found

    async def _clean(self, partition: CleanedPartition, cleanable: Cleanable, worker: Worker) -> bool:
        """Compact one log, and return whether that succeeded. Raise WorkerGone if the worker process ended."""
        log, dirty_range = cleanable.log, cleanable.dirty_range
        try:
            before = log.size_bytes
            clean = await Cleaning(cleanable, worker, self._pace).run(self._wall_ms(), self._settings().keys_max)
            log.cleaned_offset = clean
            await partition.directory.checkpoints.write_cleaned()
        except (Interrupted, ApiError) as reason:
            logger.info("%s is not compacted: %s", log.directory, reason)
        except (CorruptLog, OSError) as failure:
            self._note_failure(partition, log, failure)
        else:
            logger.info(
                "%s: compacted up to offset %d; %d of %d bytes were dirty; the log shrank to %d bytes from %d",
                log.directory,
                clean,
                dirty_range.dirty_bytes,
                dirty_range.clean_bytes + dirty_range.dirty_bytes,
                log.size_bytes,
                before,
            )
            return True
        return False

    def _note_failure(self, partition: CleanedPartition, log: Log, failure: CorruptLog | OSError) -> None:
        if isinstance(failure, CorruptLog):
            logger.error(
                "%s/%s is damaged and is not compacted again before a restart: %s",
                partition.directory.path,
                log.directory,
                failure,
            )
            self._uncleanable.add(log)
        else:
            logger.warning(
                "%s/%s cannot be compacted now; compaction is retried: %s",
                partition.directory.path,
                log.directory,
                failure,
            )
            partition.directory.fail(failure)
