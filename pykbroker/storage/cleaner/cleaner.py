"""The log cleaner: of all compacted logs of this broker the dirtiest is compacted, then the next, until none is due.

One at a time, whatever `log.cleaner.threads` says: a second would take the core that clients need. A log that cannot
be compacted, because it is damaged, is left alone until the next start, as in Kafka; what the disk refuses is tried
again.
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
"""What a key and its offset take in the worker's memory: in Kafka 24, for it has no objects."""


class Cleaned(Protocol):
    """A partition, as far as it matters here."""

    @property
    def log(self) -> Log | None:
        """None while it cannot be served."""

    @property
    def is_online(self) -> bool:
        """Whether its log can be served."""

    @property
    def high_watermark(self) -> int:
        """How far it is committed."""

    @property
    def directory(self) -> LogDirectory:
        """Where it lies."""


class CleanerSettings(NamedTuple):
    """`log.cleaner.*`, as they are at the moment."""

    backoff_ms: int
    keys_max: int
    bytes_per_second: float

    @classmethod
    def of(cls, config: BrokerConfig) -> CleanerSettings:
        """From the broker's values. The dedupe buffer bounds memory, so it holds fewer keys than Kafka's."""
        buffer_bytes, load = config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        return cls(
            config.log_cleaner_backoff_ms,
            max(1, int(buffer_bytes * load / KEY_BYTES)),
            max(1.0, config.log_cleaner_io_max_bytes_per_second),
        )


class Cleaner:
    """`partitions` and `settings` are asked anew each time."""

    def __init__(
        self,
        partitions: Callable[[], Iterable[Cleaned]],
        workers: Workers,
        settings: Callable[[], CleanerSettings],
        wall_ms: Callable[[], int],
    ) -> None:
        self._partitions, self._workers, self._settings, self._wall_ms = partitions, workers, settings, wall_ms
        self._uncleanable: WeakSet[Log] = WeakSet()
        self._pace = Pace(lambda: self._settings().bytes_per_second)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.round()
            await trio.sleep(self._settings().backoff_ms / 1000)

    async def round(self) -> None:
        """Compact what is due. What fails is left for the next round."""
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
            logger.warning("compaction stops for a while: %s", gone)

    async def _dirtiest(self, failed: set[Log]) -> tuple[Cleaned, Cleanable] | None:
        """Of the logs that are due."""
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
            await trio.lowlevel.checkpoint()  # there may be thousands
            try:
                cleanable = await Cleanable.of(log, partition.high_watermark, now_ms)
            except (CorruptLog, OSError) as failure:
                self._note_failure(partition, log, failure)
                continue
            if cleanable.is_due and (found is None or cleanable.dirt.ratio > found[1].dirt.ratio):
                found = partition, cleanable
        return found

    async def _clean(self, partition: Cleaned, cleanable: Cleanable, worker: Worker) -> bool:
        """Whether it worked. WorkerGone."""
        log, dirt = cleanable.log, cleanable.dirt
        try:
            before = log.size_bytes
            clean = await Cleaning(cleanable, worker, self._pace).run(self._wall_ms(), self._settings().keys_max)
            log.cleaned_offset = clean
            await partition.directory.checkpoint_cleaned()
        except (Interrupted, ApiError) as reason:
            logger.info("%s is not compacted: %s", log.directory, reason)
        except (CorruptLog, OSError) as failure:
            self._note_failure(partition, log, failure)
        else:
            logger.info(
                "%s: compacted up to offset %d, %d bytes of %d dirty; %d are left of %d",
                log.directory,
                clean,
                dirt.dirty_bytes,
                dirt.clean_bytes + dirt.dirty_bytes,
                log.size_bytes,
                before,
            )
            return True
        return False

    def _note_failure(self, partition: Cleaned, log: Log, failure: CorruptLog | OSError) -> None:
        if isinstance(failure, CorruptLog):
            logger.error("%s/%s is not compacted any more: %s", partition.directory.path, log.directory, failure)
            self._uncleanable.add(log)
        else:
            logger.warning("%s/%s is compacted later: %s", partition.directory.path, log.directory, failure)
            partition.directory.fail(failure)
