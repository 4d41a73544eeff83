"""Tests of power losses while topics of a log directory are created, written, deleted and created again.

After the next start a partition is complete, or never had committed records. A partition never has records of another
topic, and is never offline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from tests.unit.storage.logs import NOW, SMALL, batch

KEY = TopicPartition("t", 0)
ENDINGS = 6


@dataclass(frozen=True)
class Known:
    """The expected state of a partition of topic `topic_id`; None stands for a deleted partition.

    Records below `synced` are durable. The log start offset is at most `start`.
    """

    topic_id: bytes | None = None
    synced: int = 0
    start: int = 0
    before: bytes | None = None
    """The topic that is being deleted; its directory may still exist."""


async def opened(volume: Volume) -> LogDirectory:
    return await LogDirectory.open(SimDisk(volume), off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)


async def recorded_run(lives: int) -> Recording[Known]:
    known = Known()
    recording = Recording(known)
    directory = await opened(recording.volume)
    for life in range(lives):
        topic_id = bytes([life + 1]) * 16
        known = Known(topic_id, before=known.topic_id)
        recording.note(known)
        if known.before is not None:
            await directory.delete_logs([TopicPartition("t", 0)])
        known = replace(known, before=None)
        recording.note(known)
        log = await directory.create_log(KEY, topic_id, SMALL)
        for number in range(12 - 4 * life):
            log.appender.append(batch(b"%d" % number * 40), 0, NOW)
        await directory.checkpoints.write_high_watermarks({KEY: log.log_end_offset})
        await directory.checkpoints.write()
        await log.flush()
        known = replace(known, synced=log.log_end_offset)
        recording.note(known)
        await directory.checkpoints.write()
        known = replace(known, start=5)
        recording.note(known)
        if not life:
            log.delete_records(5)
            await directory.checkpoints.write()
    return recording


async def check(ending: PowerLoss[Known]) -> None:
    where = f"point {ending.point} ({ending.last_call}), ending {ending.number}"
    known = ending.known
    directory = await opened(ending.volume)
    if known.topic_id is None:
        return
    found = {one.key: one.topic_id for one in directory.partitions()}
    if KEY not in found:
        assert directory.high_watermark(KEY) == 0 or known.before is not None, (
            f"{where}: the directory of the partition is missing"
        )
        assert known.synced == 0, where
        await directory.create_log(KEY, known.topic_id, SMALL)
    elif known.before is None or found[KEY] != known.before:
        await directory.open_log(KEY, known.topic_id, SMALL)
    else:
        return
    log = directory.logs[KEY]
    assert log.log_end_offset >= known.synced, where
    assert log.log_start_offset in (0, known.start), where


@pytest.mark.parametrize("seed", range(2))
async def test_a_partition_never_has_another_topics_records_and_is_never_offline(seed: int) -> None:
    recording = await recorded_run(3)
    points = range(len(recording.calls) + 1)
    assert len(points) > 100
    for ending in recording.endings(ENDINGS, seed, points):
        await check(ending)
