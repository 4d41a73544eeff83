"""Tests of power losses during a clean stop and the run after it: no durable record is lost, and no log has a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.disk import FileSlice
from tests.unit.storage.logs import NOW, SMALL, batch
from wire.records.batch import batches

CONFIGS = {TopicPartition("t", 0): SMALL, TopicPartition("t", 1): replace(SMALL, cleanup_policy=("compact",))}
"""The logs and their configs. In a compacted log, recovery does not end the log at every gap between two segments."""
TOPIC_ID = bytes(range(16))
APPENDED = (3, 4, 9)
"""The records that each run appends to each log. The last run begins new segments."""
ENDINGS = 2


@dataclass(frozen=True)
class Known:
    """The number of durable records of each log."""

    synced: int = 0


async def opened(volume: Volume) -> LogDirectory:
    return await LogDirectory.open(SimDisk(volume), off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)


async def open_log(directory: LogDirectory, key: TopicPartition) -> None:
    if any(found.key == key for found in directory.partitions()):
        await directory.open_log(key, TOPIC_ID, CONFIGS[key])
    else:
        await directory.create_log(key, TOPIC_ID, CONFIGS[key])


async def recorded_run() -> Recording[Known]:
    recording, count = Recording(Known()), 0
    for run, appended in enumerate(APPENDED):
        directory = await opened(recording.volume)
        for key in CONFIGS:
            await open_log(directory, key)
            log = directory.logs[key]
            log.become_leader(run)
            for number in range(count, count + appended):
                sequence: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": number}
                log.appender.append(batch(b"%d" % number * 40, timestamp=NOW + number, **sequence), run, NOW)
        count += appended
        marks = {key: log.log_end_offset for key, log in directory.logs.items()}
        assert await directory.close(high_watermarks=marks) is None
        recording.note(Known(count))
    return recording


async def check(ending: PowerLoss[Known]) -> None:
    where = f"point {ending.point} ({ending.last_call}), ending {ending.number}"
    directory = await opened(ending.volume)
    for key in CONFIGS:
        await open_log(directory, key)
        log = directory.logs[key]
        end = log.log_end_offset
        assert end >= ending.known.synced, where
        found: list[int] = []
        while (found[-1] if found else -1) + 1 < end:
            data = await log.read_patiently(found[-1] + 1 if found else 0, 1 << 20, end, at_least_one=True)
            if isinstance(data, FileSlice):
                data = data.file.read_nowait(data.offset, data.size)
            assert data, where
            found += [one.last_offset for one in batches(data)]
        assert found == list(range(end)), where
        known = log.producers.get(1)
        assert (known.last_sequence if known else -1) == end - 1, where


@pytest.mark.parametrize("seed", range(2))
async def test_a_power_loss_around_a_clean_stop_loses_no_durable_record(seed: int) -> None:
    recording = await recorded_run()
    assert len(recording.calls) > 100
    for ending in recording.endings(ENDINGS, seed):
        await check(ending)
