"""Tests of a disk that is full from some write on and later has space again: no acknowledged record is lost."""

from __future__ import annotations

import errno

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.disk import SimDisk, SimFile
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.disk import Buffer
from tests.unit.storage.logs import NOW, SMALL, batch, every_batch

KEY = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
WRITES_MAX = 400


class Filling(SimDisk):
    """A disk that is full from write number `room` on; a test may raise `room`."""

    room = 1 << 30

    def _check_room(self, path: str) -> None:
        self.take(path)

    def take(self, path: str) -> None:
        """Count one write; raise OSError if the disk is full."""
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        return FillingFile(self, path, super().open(path, create=create)._inode)


class FillingFile(SimFile):
    """A file on a `Filling` disk."""

    def append(self, data: Buffer) -> int:
        self._disk.take(self.path)  # type: ignore[attr-defined]
        return super().append(data)


async def appended(volume: Volume, room: int) -> tuple[list[int], bool]:
    """Run appends and flushes; return the acknowledged base offsets and whether the disk was ever full."""
    disk = Filling(volume)
    disk.faults.room_bytes, disk.room = 1 << 30, room
    acknowledged: list[int] = []
    directory = None
    for _attempt in range(2):
        try:
            directory = await LogDirectory.open(disk, off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5)
            break
        except OSError:
            disk.room = 1 << 30
    assert directory is not None
    for number in range(60):
        try:
            log = directory.logs.get(KEY) or await directory.create_log(KEY, TOPIC_ID, SMALL)
            acknowledged.append(
                log.appender.append(
                    batch(b"%d" % number, producer_id=1, base_sequence=len(acknowledged)), 0, NOW
                ).base_offset
            )
            if number % 7 == 0:
                await log.flush()
                await directory.checkpoints.write()
                await directory.checkpoints.write_high_watermarks({KEY: log.log_end_offset})
        except OSError as full:
            assert full.errno == errno.ENOSPC
        if disk.room < -3:
            disk.room = 1 << 30  # The disk has space again.
    was_full = disk.room > room
    disk.room = 1 << 30
    await directory.close(high_watermarks={KEY: len(acknowledged)})
    assert directory.failed is None
    return acknowledged, was_full


async def test_no_acknowledged_record_is_lost_at_whichever_write_the_disk_is_full() -> None:
    for room in range(WRITES_MAX):
        volume = Volume()
        acknowledged, was_full = await appended(volume, room)
        directory = await LogDirectory.open(
            SimDisk(volume), off_loop=InlineOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.5
        )
        log = await directory.open_log(KEY, TOPIC_ID, SMALL)
        assert [one.base_offset for one in await every_batch(log)] == acknowledged == list(range(len(acknowledged)))
        assert len(acknowledged) > 50
        if not was_full:
            assert room > 100
            return
    raise AssertionError(f"the disk was full {WRITES_MAX} times")
