"""The periodic work on this broker's partitions: checkpoints of high watermarks, retention, commits, retries."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.portions import portions

logger = logging.getLogger(__name__)

OPENING_RETRY_INTERVAL_S = 5
COMMIT_INTERVAL_MS = 1000


class Upkeep:
    """The tasks of the periodic work, each with its own interval. A failed log directory is skipped.

    Opening and creating logs is retried every 5 s. `check_followers` runs beside the other tasks. With
    `pykbroker.flush.before.ack`, records that no client waits for are flushed and committed every second.
    """

    def __init__(
        self,
        replicas: Replicas,
        directories: tuple[LogDirectory, ...],
        config: BrokerConfig,
        wall_ms: Callable[[], int],
        check_followers: Callable[[], Awaitable[None]],
    ) -> None:
        self._replicas, self._directories, self._config, self._wall_ms = replicas, directories, config, wall_ms
        self._check_followers = check_followers
        self._written: dict[str, dict[TopicPartition, int]] = {}

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            checkpoint_ms = self._config.replica_high_watermark_checkpoint_interval_ms
            nursery.start_soon(self._every, checkpoint_ms, self._checkpoint)
            nursery.start_soon(self._every, self._config.log_retention_check_interval_ms, self._retain)
            nursery.start_soon(self._retry_unopened)
            nursery.start_soon(self._check_followers)
            if self._config.pykbroker_flush_before_ack:
                nursery.start_soon(self._every, COMMIT_INTERVAL_MS, self._commit)

    async def _retry_unopened(self) -> None:
        while True:
            await trio.sleep(OPENING_RETRY_INTERVAL_S)
            await self._replicas.retry_unopened()

    async def _every(self, interval_ms: int, chore: Callable[[LogDirectory], Awaitable[None]]) -> None:
        while True:
            await trio.sleep(interval_ms / 1000)
            for directory in self._directories:
                if directory.failed is None:
                    try:
                        await chore(directory)
                    except OSError as error:
                        directory.fail(error)

    async def _checkpoint(self, directory: LogDirectory) -> None:
        """Write the high watermarks of this directory if one of them has changed."""
        found = await high_watermarks(self._replicas, directory)
        if found != self._written.get(directory.path):
            await directory.checkpoints.write_high_watermarks(found)
            self._written[directory.path] = found

    async def _commit(self, directory: LogDirectory) -> None:
        for partition in list(self._replicas.online(directory)):
            with suppress(ApiError):  # the next append reports the same error
                await partition.commit()

    async def _retain(self, directory: LogDirectory) -> None:
        """Delete old segments, after the log start offsets are in the checkpoint.

        Recovery treats a log that no checkpoint lists as new, and a new log begins at offset 0.
        """
        await directory.checkpoints.write()
        now_ms = self._wall_ms()
        for partition in list(self._replicas.online(directory)):
            try:
                await partition.retain(now_ms)
            except ApiError as refusal:
                logger.warning("%s: cannot delete old segments: %s", partition.key, refusal)


async def high_watermarks(replicas: Replicas, directory: LogDirectory) -> dict[TopicPartition, int]:
    """Return the high watermarks of a directory, and let other tasks run between portions of many partitions."""
    found: dict[TopicPartition, int] = {}
    for few in portions(replicas.online(directory)):
        if found:
            await trio.lowlevel.checkpoint()
        found.update([(partition.key, partition.high_watermark) for partition in few])
    return found
