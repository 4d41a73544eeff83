"""Tests of the scrubber: it reads at a limited rate, finds damage that no client reads, and ignores deleted logs."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.care.scrubber import FIRST_PASS_S, Scrubber, ScrubSettings, ScrubStatistics, scrub_rank
from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Inode, Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.segments.config import LogConfig
from wire.records.builder import BatchBuilder

NOW = 1_700_000_000_000
SEGMENT_BYTES, BATCHES, RATE = 1000, 40, 1000
SMALL = LogConfig(segment_bytes=SEGMENT_BYTES)
FAST = ScrubSettings(interval_ms=1000, bytes_per_second=1 << 40)


class ScrubbedDirectory:
    """A log directory whose logs have several segments. The logs were reopened, so no byte is verified yet."""

    def __init__(self) -> None:
        self.volume = Volume()
        self.partitions: list[Partition] = []

    async def fill(self, count: int) -> ScrubbedDirectory:
        directory = await self._opened()
        for index in range(count):
            log = await directory.create_log(TopicPartition("t", index), bytes(15) + bytes([index]), SMALL)
            for number in range(BATCHES):
                builder = BatchBuilder()
                builder.append(None, b"%2d" % number * 20, timestamp=NOW)
                log.appender.append(builder.build(), 0, NOW)
        await directory.close(high_watermarks={})
        directory = await self._opened()
        for index in range(count):
            log = await directory.open_log(TopicPartition("t", index), bytes(15) + bytes([index]), SMALL)
            self.partitions.append(Partition(TopicPartition("t", index), log, directory))
        return self

    async def _opened(self) -> LogDirectory:
        return await LogDirectory.open(
            SimDisk(self.volume), off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5
        )

    def flip(self, index: int, at: int) -> None:
        """Flip one bit in the second segment of the log."""
        log = self.partitions[index].log
        base = log.segments.every()[1].base_offset
        inode = self.volume.find(f"t-{index}/{base:020d}.log")
        assert isinstance(inode, Inode)
        self.volume.flip(inode.number, at, 3)

    def scrubber(self, settings: ScrubSettings = FAST) -> Scrubber:
        return Scrubber(lambda: [one for one in self.partitions if one.log], settings)

    @property
    def size(self) -> int:
        return sum(one.log.size_bytes for one in self.partitions if one.log)


@pytest.mark.parametrize("at", [3, 30, 100, 700])
async def test_a_scrub_finds_damage_that_no_client_reads(at: int, caplog: pytest.LogCaptureFixture) -> None:
    """Damage in an offset, a checksum or a record takes only its own partition offline."""
    scrubbed = await ScrubbedDirectory().fill(3)
    size = scrubbed.size
    scrubbed.flip(1, at)
    scrubber = scrubbed.scrubber()
    with caplog.at_level(logging.INFO):
        await scrubber.scrub()
    assert [one.is_online for one in scrubbed.partitions] == [True, False, True]
    found = scrubber.statistics()
    assert (found.passes, found.partitions_damaged, found.partitions_left) == (1, 1, 0)
    assert size * 2 // 3 < found.bytes_read < size
    assert "t-1: going offline" in caplog.text
    assert "1 partitions are damaged" in caplog.text


def test_replicas_that_were_stopped_in_order_are_read_first_and_leaders_before_followers() -> None:
    ranked = {
        (stopped, leads): scrub_rank(was_stopped_in_order=stopped, leads=leads)
        for stopped in (False, True)
        for leads in (False, True)
    }
    assert sorted(ranked, key=ranked.__getitem__) == [(True, True), (True, False), (False, True), (False, False)]


async def test_a_pass_reads_the_partitions_in_the_order_of_their_ranks() -> None:
    read: list[int] = []
    ranks = [(False, False), (True, False), (False, True), (True, True), (True, False)]

    class Ranked:
        log = None

        def __init__(self, number: int, clean: bool, is_leader: bool) -> None:
            self.number, self.is_leader, self.directory = number, is_leader, SimpleNamespace(clean=clean)

        async def scrub(self, pace: Any) -> None:
            read.append(self.number)

    partitions: Any = [Ranked(number, *rank) for number, rank in enumerate(ranks)]
    await Scrubber(lambda: partitions, FAST).scrub()
    assert read == [3, 1, 4, 2, 0]


async def test_a_later_scrub_reads_the_verified_bytes_again() -> None:
    scrubbed = await ScrubbedDirectory().fill(1)
    scrubber = scrubbed.scrubber()
    await scrubber.scrub()
    assert scrubber.statistics() == ScrubStatistics(1, scrubbed.size, 0, 0)
    scrubbed.flip(0, 100)
    await scrubber.scrub()
    assert not scrubbed.partitions[0].is_online


async def test_a_scrub_observes_its_rate_and_its_interval(autojump_clock: MockClock) -> None:
    scrubbed = await ScrubbedDirectory().fill(2)
    scrubber, interval_s = scrubbed.scrubber(ScrubSettings(3_600_000, RATE)), 3600
    seen = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.run)
        for until_s in (FIRST_PASS_S - 1, FIRST_PASS_S + 2, FIRST_PASS_S + 60, FIRST_PASS_S + interval_s + 60):
            await trio.sleep_until(until_s)
            seen.append(scrubber.statistics())
        nursery.cancel_scope.cancel()
    assert seen[0] == ScrubStatistics()
    assert 0 < seen[1].bytes_read <= 2 * RATE + SEGMENT_BYTES
    assert (seen[1].passes, seen[1].partitions_left) == (0, 2)
    assert [(one.passes, one.bytes_read) for one in seen[2:]] == [(1, scrubbed.size), (2, 2 * scrubbed.size)]


async def test_a_scrub_can_be_disabled() -> None:
    config = BrokerConfig.from_mapping({"node.id": "1", "pykbroker.scrub.bytes.per.second": "0"})
    scrubber = Scrubber(list, ScrubSettings.of(config))
    await scrubber.run()
    assert scrubber.statistics().passes == 0


async def test_a_log_deleted_during_a_scrub_is_not_reported_as_damaged(autojump_clock: MockClock) -> None:
    scrubbed = await ScrubbedDirectory().fill(2)
    scrubber = scrubbed.scrubber(ScrubSettings(1000, RATE))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.scrub)
        await trio.sleep(1)
        await scrubbed.partitions[0].directory.delete_logs([TopicPartition("t", 0)])
    assert scrubber.statistics().partitions_damaged == 0
    assert scrubbed.partitions[0].directory.failed is None
    assert scrubber.statistics().passes == 1


async def test_segments_deleted_during_a_scrub_are_not_reported_as_damaged(autojump_clock: MockClock) -> None:
    scrubbed = await ScrubbedDirectory().fill(1)
    log = scrubbed.partitions[0].log
    scrubber = scrubbed.scrubber(ScrubSettings(1000, RATE))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.scrub)
        await trio.sleep(1)
        log.delete_records(log.log_end_offset)
        await log.retain(NOW, log.log_end_offset)
        for path in log.take_deleted():
            SimDisk(scrubbed.volume).remove(path)
    assert scrubbed.partitions[0].is_online
    assert scrubber.statistics().partitions_damaged == 0
