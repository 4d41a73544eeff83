"""What this broker's partitions need from time to time: high watermarks written down, old segments let go, commits."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.directory.log_directory import LogDirectory

logger = logging.getLogger(__name__)

MAKE_UP_INTERVAL_S = 5
COMMIT_INTERVAL_MS = 1000


class Upkeep:
    """Chores, each at its interval; a directory that fails has none.

    What could not be made is tried again, and with `pykbroker.flush.before.ack` what nobody waits for is committed.
    """

    def __init__(
        self,
        replicas: Replicas,
        directories: tuple[LogDirectory, ...],
        config: BrokerConfig,
        wall_ms: Callable[[], int],
    ) -> None:
        self._replicas, self._directories, self._config, self._wall_ms = replicas, directories, config, wall_ms
        self._written: dict[str, dict[tuple[str, int], int]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            checkpoint_ms = self._config.replica_high_watermark_checkpoint_interval_ms
            nursery.start_soon(self._every, checkpoint_ms, self._checkpoint)
            nursery.start_soon(self._every, self._config.log_retention_check_interval_ms, self._retain)
            nursery.start_soon(self._make_up)
            if self._config.pykbroker_flush_before_ack:
                nursery.start_soon(self._every, COMMIT_INTERVAL_MS, self._commit)

    async def _make_up(self) -> None:
        while True:
            await trio.sleep(MAKE_UP_INTERVAL_S)
            await self._replicas.make_up()

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
        """Nothing is written while nothing moves."""
        high_watermarks = self._replicas.high_watermarks(directory)
        if high_watermarks != self._written.get(directory.path):
            await directory.checkpoint_high_watermarks(high_watermarks)
            self._written[directory.path] = high_watermarks

    async def _commit(self, directory: LogDirectory) -> None:
        for partition in list(self._replicas.online(directory)):
            with suppress(ApiError):  # which the next one to append is told, too
                await partition.commit()

    async def _retain(self, directory: LogDirectory) -> None:
        """A log lets nothing go before a checkpoint knows of it: recovery takes one that none knows for a new one."""
        await directory.checkpoint()
        now_ms = self._wall_ms()
        for partition in list(self._replicas.online(directory)):
            try:
                await partition.retain(now_ms)
            except ApiError as refusal:
                logger.warning("%s-%d keeps what it should not: %s", partition.topic, partition.index, refusal)
