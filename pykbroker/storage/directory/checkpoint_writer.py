"""The writer of a log directory's checkpoints: recovery points, log start offsets, high watermarks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.root_checkpoints import CheckpointOffsets, RootCheckpoints
from pykbroker.storage.files.checkpoints import CLEANED, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Disk
from pykbroker.world.portions import portions

logger = logging.getLogger(__name__)


class CheckpointWriter:
    """The writer of a log directory's checkpoints.

    `logs` has the open logs. `known` has the partitions that have a directory. `offline` has the known partitions whose
    logs are damaged. `lost` has the partitions whose directory is missing. `fail` is called with every OSError.
    """

    def __init__(
        self,
        disk: Disk,
        checkpoints: RootCheckpoints,
        logs: Mapping[TopicPartition, Log],
        known: Collection[TopicPartition],
        offline: Collection[TopicPartition],
        lost: Collection[TopicPartition],
        fail: Callable[[OSError], None],
    ) -> None:
        self._path, self._checkpoints, self._logs = disk.path, checkpoints, logs
        self._known, self._offline, self._lost, self._fail = known, offline, lost, fail

    async def write(self) -> None:
        """Write the recovery points and log start offsets of all logs whose directories are durable."""
        durable = await self._durable_logs()
        await self._checkpoints.write(
            RECOVERY_POINTS,
            lambda: (
                self._unopened(RECOVERY_POINTS)
                | self._listed_undurable(RECOVERY_POINTS, durable, lambda log: log.recovery_point)
                # A partition may have been deleted, and created again, since its directory was found durable.
                | {key: log.recovery_point for key, log in durable.items() if self._logs.get(key) is log}
            ),
        )
        await self._checkpoints.write(
            LOG_STARTS,
            lambda: (
                self._unopened(LOG_STARTS)
                | self._listed_undurable(LOG_STARTS, durable, lambda log: log.flusher.start_max)
                | {
                    key: start
                    for key, log in durable.items()
                    if (start := log.flusher.listed_start) is not None and self._logs.get(key) is log
                }
            ),
        )

    async def write_cleaned(self) -> None:
        """Write the cleaned offset of each log."""
        await self._checkpoints.write(
            CLEANED,
            lambda: (
                self._unopened(CLEANED)
                | {key: log.cleaned_offset for key, log in self._logs.items() if log.cleaned_offset}
            ),
        )

    async def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks of all partitions whose directories are durable.

        A log that is listed stays so while its directory is not durable, such as one that was created meanwhile.
        """
        durable = await self._durable_logs()
        await self._checkpoints.write(
            HIGH_WATERMARKS,
            lambda: (
                self._unopened(HIGH_WATERMARKS)
                | self._listed()
                | {key: offset for key, offset in high_watermarks.items() if self._logs.get(key) is durable.get(key)}
            ),
        )

    def _listed_undurable(
        self, name: str, durable: Mapping[TopicPartition, Log], offset_max: Callable[[Log], int]
    ) -> CheckpointOffsets:
        """Return the listed offsets of open logs whose directories cannot be synced now, up to `offset_max` of each.

        Recovery takes a log without a recovery point for one that was never synced, and a log without a start offset
        for one that begins with its first segment.
        """
        return {
            key: min(listed, offset_max(log))
            for key, listed in self._checkpoints.on_disk(name).items()
            if (log := self._logs.get(key)) is not None and durable.get(key) is not log
        }

    def _listed(self) -> CheckpointOffsets:
        """Return the listed high watermarks of open logs and of lost ones.

        The high watermark of a lost log is above 0: after a clean shutdown, 0 would mean that the log has no records.
        """
        left, on_disk = self._checkpoints.left[HIGH_WATERMARKS], self._checkpoints.on_disk(HIGH_WATERMARKS)
        lost = {key: max(1, left[key]) for key in self._lost if key in left}
        return lost | {key: offset for key, offset in on_disk.items() if key in self._logs}

    async def _durable_logs(self) -> dict[TopicPartition, Log]:
        """Return the logs whose directories are durable."""
        durable: dict[TopicPartition, Log] = {}
        for few in portions(self._logs.items()):
            durable.update([(key, log) for key, log in few if await self._is_durable(log)])
            await trio.lowlevel.checkpoint()
        return durable

    async def _is_durable(self, log: Log) -> bool:
        try:
            await log.flusher.sync_directory()
        except ApiError as deleted:
            logger.debug("%s is left out of the checkpoint: %s", log.directory, deleted)
            return False
        except OSError as refusal:
            logger.warning("%s/%s is left out of the checkpoint: %s", self._path, log.directory, refusal)
            self._fail(refusal)
            return False
        return True

    def _unopened(self, name: str) -> CheckpointOffsets:
        """Return the checkpointed offsets of the offline and lost partitions, which a new checkpoint keeps."""
        return {
            key: offset
            for key, offset in self._checkpoints.left[name].items()
            if key in self._lost or (key in self._known and (key not in self._logs or key in self._offline))
        }
