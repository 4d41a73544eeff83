"""The paced scrub: bit rot is found while there is a good copy left somewhere, not when somebody needs the record.

1. A pass reads every log from its file, to the end that it has then, batch by batch with their checksums; one pass
   begins `pykbroker.scrub.interval.ms` after the one before it began. The first waits for a broker that has just
   started to settle.
2. No more than `pykbroker.scrub.bytes.per.second` are read; 0 switches the scrub off.
3. What does not hold takes its partition offline, and what the disk refuses its directory, as when a client reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import trio

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.replica.partition import Partition
from pykbroker.storage.cleaner.pace import Pace

logger = logging.getLogger(__name__)

FIRST_PASS_S = 600


class ScrubSettings(NamedTuple):
    """`pykbroker.scrub.*`."""

    interval_ms: int
    bytes_per_second: int

    @classmethod
    def of(cls, config: BrokerConfig) -> ScrubSettings:
        """From the broker's values."""
        return cls(config.pykbroker_scrub_interval_ms, config.pykbroker_scrub_bytes_per_second)


@dataclass(frozen=True, slots=True)
class ScrubStatistics:
    """Since the start. `partitions_left`: of the pass that is under way."""

    passes: int = 0
    bytes_read: int = 0
    partitions_damaged: int = 0
    partitions_left: int = 0


class Scrubber:
    """`partitions` is asked anew for each pass."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]], settings: ScrubSettings) -> None:
        self._partitions, self._settings = partitions, settings
        self._wait = Pace(lambda: settings.bytes_per_second)
        self._statistics = ScrubStatistics()

    def statistics(self) -> ScrubStatistics:
        """As it is now."""
        return self._statistics

    async def run(self) -> None:
        """Until cancelled; at once where it is switched off."""
        due_s = trio.current_time() + min(FIRST_PASS_S, self._settings.interval_ms / 1000)
        while self._settings.bytes_per_second:
            await trio.sleep_until(due_s)
            due_s = trio.current_time() + self._settings.interval_ms / 1000
            await self.scrub()

    async def scrub(self) -> None:
        """One pass."""
        before, began_s = self._statistics, trio.current_time()
        partitions = list(self._partitions())
        for at, partition in enumerate(partitions):
            self._count(partitions_left=len(partitions) - at)
            await trio.lowlevel.checkpoint()
            await self._scrub(partition)
        found = self._count(passes=before.passes + 1, partitions_left=0)
        logger.info(
            "%d partitions were scrubbed, %d bytes in %d s; %d of them are damaged",
            len(partitions),
            found.bytes_read - before.bytes_read,
            trio.current_time() - began_s,
            found.partitions_damaged - before.partitions_damaged,
        )

    async def _scrub(self, partition: Partition) -> None:
        try:
            await partition.scrub(self._pace)
        except ApiError as refusal:
            logger.warning("%s-%d is not scrubbed: %s", partition.topic, partition.index, refusal)
            self._count(partitions_damaged=self._statistics.partitions_damaged + (partition.log is None))

    async def _pace(self, size: int) -> None:
        self._count(bytes_read=self._statistics.bytes_read + size)
        await self._wait(size)

    def _count(self, **counts: int) -> ScrubStatistics:
        self._statistics = replace(self._statistics, **counts)
        return self._statistics
