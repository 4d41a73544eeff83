"""The scrub, which verifies all stored batches at a limited rate. It finds damage before a client reads the batch.

1. A pass reads the files of every log up to the current log end offset, and verifies the CRC of each batch. A pass
   begins `pykbroker.scrub.interval.ms` after the previous pass began. The first pass begins 10 minutes after the start
   of the broker, or after one interval if that is shorter.
2. A pass begins with the replicas that were shut down cleanly, because this start has read none of their records. In
   both groups, leaders come before followers, because clients read leaders, and followers copy them.
3. A pass reads at most `pykbroker.scrub.bytes.per.second`. The value 0 disables the scrub.
4. A damaged batch takes its partition offline, and a disk error takes its log directory offline, as in a read for a
   client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import trio

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.replica.partition.partition import Partition
from pykbroker.storage.cleaner.pace import Pace

logger = logging.getLogger(__name__)

FIRST_PASS_S = 600


class ScrubSettings(NamedTuple):
    """The current values of the `pykbroker.scrub.*` configs."""

    interval_ms: int
    bytes_per_second: int

    @classmethod
    def of(cls, config: BrokerConfig) -> ScrubSettings:
        return cls(config.pykbroker_scrub_interval_ms, config.pykbroker_scrub_bytes_per_second)


class ScrubStatistics(msgspec.Struct, frozen=True):
    """The counts of the scrub since the broker started.

    `partitions_left` is the number of partitions that the current pass has not read yet.
    """

    passes: int = 0
    bytes_read: int = 0
    partitions_damaged: int = 0
    partitions_left: int = 0


class Scrubber:
    """The background scrub. It calls `partitions` at the start of a pass to get the partitions to scrub."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]], settings: ScrubSettings) -> None:
        self._partitions, self._settings = partitions, settings
        self._wait = Pace(lambda: settings.bytes_per_second)
        self._statistics = ScrubStatistics()

    def statistics(self) -> ScrubStatistics:
        """Return the current counts."""
        return self._statistics

    async def run(self) -> None:
        """Scrub until cancelled. Return at once if the scrub is disabled."""
        due_s = trio.current_time() + min(FIRST_PASS_S, self._settings.interval_ms / 1000)
        while self._settings.bytes_per_second:
            await trio.sleep_until(due_s)
            due_s = trio.current_time() + self._settings.interval_ms / 1000
            await self.scrub()

    async def scrub(self) -> None:
        """Run one pass over all partitions."""
        before, began_s = self._statistics, trio.current_time()
        partitions = sorted(
            self._partitions(),
            key=lambda one: scrub_rank(was_stopped_in_order=one.directory.clean, leads=one.is_leader),
        )
        for at, partition in enumerate(partitions):
            self._count(partitions_left=len(partitions) - at)
            await trio.lowlevel.checkpoint()
            await self._scrub(partition)
        found = self._count(passes=before.passes + 1, partitions_left=0)
        logger.info(
            "scrub: read %d partitions, %d bytes in %d s; %d partitions are damaged",
            len(partitions),
            found.bytes_read - before.bytes_read,
            trio.current_time() - began_s,
            found.partitions_damaged - before.partitions_damaged,
        )

    async def _scrub(self, partition: Partition) -> None:
        try:
            await partition.scrub(self._pace)
        except ApiError as refusal:
            logger.warning("%s: scrub failed: %s", partition.key, refusal)
            self._count(partitions_damaged=self._statistics.partitions_damaged + (partition.log is None))

    async def _pace(self, size: int) -> None:
        self._count(bytes_read=self._statistics.bytes_read + size)
        await self._wait(size)

    def _count(self, **counts: int) -> ScrubStatistics:
        self._statistics = msgspec.structs.replace(self._statistics, **counts)
        return self._statistics


def scrub_rank(*, was_stopped_in_order: bool, leads: bool) -> int:
    """Return the rank of a replica in a pass, which reads low ranks first.

    `was_stopped_in_order` says whether the last run closed the log. Otherwise the start has read its newest records.
    """
    return 2 * (not was_stopped_in_order) + (not leads)
