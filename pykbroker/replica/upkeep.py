"""What this broker's partitions need from time to time: their high watermarks written down, old segments let go."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pykbroker.core.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

MAKE_UP_INTERVAL_S = 5


class Upkeep:
    """Two chores, each at the interval that its config says, and a third: what could not be made is tried again.

    A directory that fails has none.
    """

    def __init__(
        self, replicas: Replicas, directories: tuple[LogDirectory, ...], config: BrokerConfig,
        wall_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        self._replicas, self._directories, self._config, self._wall_ms = replicas, directories, config, wall_ms
        self._written: dict[str, dict[tuple[str, int], int]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            checkpoint_ms = self._config.replica_high_watermark_checkpoint_interval_ms
            nursery.start_soon(self._every, checkpoint_ms, self._checkpoint)
            nursery.start_soon(self._every, self._config.log_retention_check_interval_ms, self._retain)
            nursery.start_soon(self._make_up)

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

    async def _retain(self, directory: LogDirectory) -> None:
        now_ms = self._wall_ms()
        for partition in list(self._replicas.online(directory)):
            try:
                await partition.retain(now_ms)
            except ApiError as refusal:
                logger.warning("%s-%d keeps what it should not: %s", partition.topic, partition.index, refusal)
