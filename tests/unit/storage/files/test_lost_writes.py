"""Tests of a failed fsync, then a restart with the same page cache, then a power loss: no acknowledged
record is lost.
"""

from __future__ import annotations

import errno
import logging
from random import Random

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.disk import DiskFaults, SimDisk, SimFile
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.power_loss import Luck, after_power_loss
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files import lost_writes
from pykbroker.storage.files.reading import CHUNK_BYTES
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import NOW, SMALL, batch, every_byte

KEY, TOPIC_ID = TopicPartition("t", 0), bytes(range(16))
ALL_LOST = Luck(in_order=False, kept=0.0, zeros=0.0, names_in_order=True, names_kept=0.0)


async def opened(disk: SimDisk) -> LogDirectory:
    return await LogDirectory.open(disk, off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)


async def failed(flushed: int) -> Volume:
    """Return the disk of a process that was killed after a failed fsync; `flushed` batches were durable before."""
    volume, faults = Volume(), DiskFaults()
    disk = SimDisk(volume, faults=faults)
    directory = await opened(disk)
    log = await directory.create_log(KEY, TOPIC_ID, SMALL)
    for number in range(40):
        if number == flushed:
            await log.flush()
            await directory.checkpoints.write()
        log.appender.append(batch(b"%d" % number * 40), 0, NOW)
    faults.sync_fails = 1.0
    with pytest.raises(OSError, match="Input/output error"):
        await log.flush()
    disk.release()
    return volume


@pytest.mark.parametrize("flushed", [-1, 0, 1, 25])
async def test_records_acknowledged_after_a_failed_fsync_survive_a_power_loss(flushed: int) -> None:
    volume = await failed(flushed)
    disk = SimDisk(volume)
    directory = await opened(disk)
    log = await directory.open_log(KEY, TOPIC_ID, SMALL)
    seen = await every_byte(log)
    await log.flush()
    assert log.recovery_point == log.log_end_offset > max(flushed, 0)
    directory = await opened(SimDisk(after_power_loss(volume, Random(0), ALL_LOST)))
    log = await directory.open_log(KEY, TOPIC_ID, SMALL)
    assert await every_byte(log) == seen


async def test_the_file_that_notes_a_failed_fsync_stays_until_a_clean_shutdown() -> None:
    volume = await failed(0)
    disk = SimDisk(volume)
    for _ in range(2):
        assert lost_writes.are_noted(disk)
        directory = await opened(disk)
        await directory.open_log(KEY, TOPIC_ID, SMALL)
        disk.release()
    directory = await opened(disk)
    await directory.open_log(KEY, TOPIC_ID, SMALL)
    await directory.close(high_watermarks={})
    assert not lost_writes.are_noted(disk)
    assert (await opened(disk)).clean


async def test_without_a_failed_fsync_a_start_rewrites_no_file() -> None:
    volume = Volume()
    log = await (await opened(disk := SimDisk(volume))).create_log(KEY, TOPIC_ID, SMALL)
    log.appender.append(batch(), 0, NOW)
    disk.release()
    directory = await opened(SimDisk(volume))
    calls: list[str] = []
    volume.noted = lambda name, args: calls.append(name)
    await directory.open_log(KEY, TOPIC_ID, SMALL)
    assert calls.count("write") == 0


async def test_a_failure_to_note_a_failed_fsync_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Full(SimDisk):
        def open(self, path: str, *, create: bool = False) -> SimFile:
            raise OSError(errno.EROFS, "Read-only file system")

    with caplog.at_level(logging.ERROR):
        lost_writes.note(Full(Volume()))
    assert "Read-only file system" in caplog.text


async def test_rewriting_a_file_does_not_change_it(disk: SystemDisk) -> None:
    data = Random(1).randbytes(2 * CHUNK_BYTES + 7)
    file = disk.open("file", create=True)
    file.append(data)
    await lost_writes.write_again(file, file.size)
    assert file.size == len(data)
    assert bytes(await file.read(0, len(data))) == data
