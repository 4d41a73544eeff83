"""The truncation of a log. The checkpoints of its log directory are lowered first.

Otherwise a checkpoint could still have an offset above the truncation after a crash. The next start would then refuse
or drop valid records that were appended since, because the recovery point or the log start offset is too high.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.checkpoint_writer import CheckpointWriter
from pykbroker.storage.directory.root_checkpoints import RootCheckpoints
from pykbroker.storage.files.checkpoints import CLEANED, HIGH_WATERMARKS
from pykbroker.storage.log.log import Log


class Truncation:
    """The truncation of the open logs of a log directory. The caller prevents appends during a call."""

    def __init__(
        self, logs: Mapping[TopicPartition, Log], checkpoints: RootCheckpoints, writer: CheckpointWriter
    ) -> None:
        self._logs, self._checkpoints, self._writer = logs, checkpoints, writer

    async def truncate(self, key: TopicPartition, offset: int) -> None:
        """Drop the batch that holds `offset` and all later ones, durably.

        The batch may begin below `offset`, but not below its segment, to whose base offset the checkpoints are lowered.
        """
        log = self._logs[key]
        if offset < log.log_end_offset:
            bases = [segment.base_offset for segment in log.segments.every()]
            await self._lower(key, log, max((base for base in bases if base <= offset), default=offset))
        await log.shrinker.truncate(offset)

    async def truncate_fully(self, key: TopicPartition, offset: int, log_start_offset: int) -> None:
        """Drop all records of a log and continue it at `offset`.

        `log_start_offset` is `offset`, or an offset inside the batch to be appended next.
        """
        log = self._logs[key]
        await self._lower(key, log, min(offset, log.log_start_offset))
        await log.shrinker.truncate_fully_and_start_at(offset, log_start_offset)

    async def _lower(self, key: TopicPartition, log: Log, end: int) -> None:
        log.flusher.limit_checkpoints(end)
        try:
            # Before the truncation: a recovery point above the end of the log would mean that fsynced records are
            # missing.
            await self._writer.write()
            log.cleaned_offset = min(log.cleaned_offset, end)
            for name in (CLEANED, HIGH_WATERMARKS):
                await self._checkpoints.lower(name, key, end)
        except BaseException:
            log.flusher.lift_limit()
            raise
