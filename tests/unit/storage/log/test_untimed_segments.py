"""Tests of segments whose records have no timestamp, or one before 1970: the age of the segment is that of its file.

The age at which a segment rolls is the time since it was opened. Source: Kafka's LogSegment.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import Volume
from pykbroker.storage.cleaner.cleaning import Cleanable
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.leftovers import offsets_of
from tests.unit.storage.compacted import clean
from tests.unit.storage.logs import DIRECTORY, NOW, batch, open_log
from wire.records.batch import Batch
from wire.records.builder import sealed

HOUR = 3_600_000
UNTIMED = [-1, -5000]
HOURLY = LogConfig(segment_ms=HOUR, index_interval_bytes=0)


class Machine:
    """A log directory whose files are modified at the time `now`."""

    def __init__(self) -> None:
        self.now, self.volume = NOW, Volume()
        self.disk = self._mounted()

    def _mounted(self) -> SimDisk:
        return SimDisk(self.volume, wall_ms=lambda: self.now)

    async def open(self, config: LogConfig, **options: Any) -> Log:
        return await open_log(self.disk, config, wall_ms=lambda: self.now, **options)

    def lose_power(self) -> None:
        """Continue with a copy of the volume."""
        self.volume = after_power_loss(self.volume, Random(0), ALL_KEPT)
        self.disk = self._mounted()

    def bases(self) -> list[int]:
        return offsets_of(self.disk.names(DIRECTORY), ".log")


@pytest.fixture
def machine() -> Machine:
    return Machine()


async def append(machine: Machine, log: Log, way: str, timestamp: int) -> None:
    """Append a batch as a client, off the event loop, as the leader, or as a follower does."""
    data = batch(timestamp=timestamp)
    match way:
        case "client":
            log.appender.append(data, 0, machine.now)
        case "thread":
            log.appender.append_opened(await log.appender.open_off_loop(data, machine.now), 0)
        case "leader":
            log.append_as_leader(data, 0)
        case _:
            one = Batch.read(data)
            log.append_stored(sealed(replace(one, base_offset=log.log_end_offset, leader_epoch=0), one.payload))


@pytest.mark.parametrize("timestamp", UNTIMED)
@pytest.mark.parametrize("way", ["client", "thread", "leader", "follower"])
async def test_a_segment_rolls_segment_ms_after_it_was_opened(machine: Machine, way: str, timestamp: int) -> None:
    log = await machine.open(HOURLY)
    for passed in (0, HOUR - 1, 1, 1):
        machine.now += passed
        await append(machine, log, way, timestamp)
    assert machine.bases() == [0, 3]
    machine.now += HOUR
    await append(machine, log, way, timestamp)
    assert machine.bases() == [0, 3]


@pytest.mark.parametrize("timestamp", [NOW, -1])
async def test_batches_that_a_follower_appends_together_stay_in_an_old_empty_segment(
    machine: Machine, timestamp: int
) -> None:
    log = await machine.open(HOURLY)
    machine.now += 2 * HOUR
    one = Batch.read(batch(timestamp=timestamp))
    log.append_stored(b"".join(sealed(replace(one, base_offset=at, leader_epoch=0), one.payload) for at in range(3)))
    assert machine.bases() == [0]


async def test_the_first_batch_decides_what_the_age_of_a_segment_is(machine: Machine) -> None:
    log = await machine.open(HOURLY)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    log.appender.append(batch(timestamp=NOW + HOUR), 0, NOW + HOUR)
    assert machine.bases() == [0]
    machine.now += HOUR + 1
    log.appender.append(batch(timestamp=NOW), 0, NOW)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    machine.now += HOUR + 1
    log.appender.append(batch(timestamp=-1), 0, NOW)
    log.appender.append(batch(timestamp=NOW + HOUR), 0, NOW)
    assert machine.bases() == [0, 2]
    log.appender.append(batch(timestamp=NOW + HOUR + 1), 0, NOW + HOUR)
    assert machine.bases() == [0, 2, 6]


async def test_a_restart_and_another_segment_ms_apply_to_the_open_segment(machine: Machine) -> None:
    log = await machine.open(HOURLY)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    await log.close()
    machine.now += HOUR
    log = await machine.open(HOURLY, clean=True)
    machine.now += HOUR
    log.appender.append(batch(timestamp=-1), 0, NOW)
    assert machine.bases() == [0]
    log.configure(replace(HOURLY, segment_ms=HOUR - 1))
    log.appender.append(batch(timestamp=-1), 0, NOW)
    assert machine.bases() == [0, 2]


async def test_jitter_makes_an_untimed_segment_roll_earlier(machine: Machine) -> None:
    log = await machine.open(replace(HOURLY, segment_jitter_ms=1000), jitter=lambda below: 10)
    log.appender.append(batch(timestamp=-1), 0, NOW)
    machine.now += HOUR - 10
    log.appender.append(batch(timestamp=-1), 0, NOW)
    assert machine.bases() == [0]
    machine.now += 1
    log.appender.append(batch(timestamp=-1), 0, NOW)
    assert machine.bases() == [0, 2]


async def hourly(machine: Machine, config: LogConfig, timestamps: list[int]) -> Log:
    """Return a log with a segment for each timestamp, each written an hour after the one before it."""
    log = await machine.open(replace(config, segment_bytes=len(batch())))
    for number, timestamp in enumerate(timestamps):
        machine.now += HOUR if number else 0
        log.appender.append(batch(timestamp=timestamp), 0, machine.now)
    return log


@pytest.mark.parametrize("timestamp", UNTIMED)
@pytest.mark.parametrize(("retention_ms", "start"), [(HOUR, 1), (HOUR - 1, 2), (0, 2), (-1, 0), (2 * HOUR, 0)])
@pytest.mark.parametrize("then", ["runs on", "restarts", "loses power"])
async def test_retention_measures_the_age_of_the_files(
    machine: Machine, timestamp: int, retention_ms: int, start: int, then: str
) -> None:
    log = await hourly(machine, LogConfig(retention_ms=retention_ms), [timestamp] * 3)
    if then == "restarts":
        await log.close()
    elif then == "loses power":
        await log.flush()
        machine.lose_power()
    if then != "runs on":
        log = await machine.open(log.config, clean=then == "restarts", recovery_point=log.recovery_point)
    await log.retain(machine.now, log.log_end_offset)
    assert log.log_start_offset == start


async def test_retention_deletes_the_active_segment_too(machine: Machine) -> None:
    log = await hourly(machine, LogConfig(retention_ms=HOUR), [-1])
    await log.retain(machine.now + HOUR, 1)
    assert log.log_start_offset == 0
    await log.retain(machine.now + HOUR + 1, 1)
    assert (log.log_start_offset, machine.bases()) == (1, [1])


async def test_an_untimed_segment_does_not_hold_up_those_after_it(machine: Machine) -> None:
    log = await hourly(machine, LogConfig(retention_ms=HOUR), [NOW, -1, NOW + HOUR, -1])
    await log.retain(machine.now, log.log_end_offset)
    assert log.log_start_offset == 3


@pytest.mark.parametrize("timestamp", UNTIMED)
@pytest.mark.parametrize(("lag_ms", "count"), [(HOUR, 1), (HOUR + 1, 0), (HOUR - 1, 1), (1, 1), (0, 2)])
async def test_min_compaction_lag_measures_the_age_of_the_files(
    machine: Machine, timestamp: int, lag_ms: int, count: int
) -> None:
    compacted = LogConfig(cleanup_policy=("compact",), min_compaction_lag_ms=lag_ms)
    log = await hourly(machine, compacted, [timestamp] * 3)
    await log.flush()
    found = await Cleanable.of(log, log.log_end_offset, machine.now - HOUR)
    assert len(found.segments) == count


async def test_a_compacted_segment_is_as_old_as_the_youngest_segment_in_it(machine: Machine) -> None:
    both = LogConfig(cleanup_policy=("compact", "delete"), retention_ms=3 * HOUR)
    log = await hourly(machine, both, [-1] * 3)
    log.configure(replace(log.config, segment_bytes=1 << 20))
    await log.flush()
    machine.now += HOUR
    await clean(log)
    assert machine.disk.modified_ms(f"{DIRECTORY}/{0:020d}.log") == NOW + HOUR
    await log.retain(NOW + 4 * HOUR, log.log_end_offset)
    assert log.log_start_offset == 0
    await log.retain(NOW + 4 * HOUR + 1, log.log_end_offset)
    assert log.log_start_offset == 2
