"""An observer on a full disk holds the newest metadata in memory, and writes it once the disk has room."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.quorum import observer_log
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.observer_log import ObserverLog
from pykbroker.quorum.quorum_state import QuorumState
from pykbroker.sim.disk import TEBIBYTE, SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.files.small_files import read_whole
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from wire.messages.fetch import EpochEndOffset
from wire.records.batch import batches
from wire.records.builder import BatchBuilder

EPOCH = 3


def batch(offset: int, epoch: int = EPOCH) -> bytes:
    """Return a batch of two records as the leader stores it."""
    builder = BatchBuilder()
    for _ in range(2):
        builder.append(None, b"v" * 50, timestamp=1)
    builder.base_offset, builder.leader_epoch = offset, epoch
    return bytes(builder.build())


class Held:
    """An observer's log on a disk that may be full."""

    def __init__(self) -> None:
        self.disk = SimDisk(Volume())
        self.disk.make_directory("log")
        self.journal = Log.create(self.disk, "log", LogConfig(), off_loop=InlineOffLoop())
        found: Any = SimpleNamespace(
            machine=SimpleNamespace(freeze=lambda *_: SimpleNamespace(image=None), next_offset=4)
        )
        found.epoch = found.time_ms = 0
        none: Any = SimpleNamespace(ids=list)
        self.log = ObserverLog(self.journal, self.disk, none, QuorumState(), found, none)
        self.log.append(batch(0))

    def fill(self) -> None:
        self.disk.faults.room_bytes = 0

    def empty(self) -> None:
        self.disk.faults.room_bytes = TEBIBYTE

    async def offsets(self, offset: int, upper: int) -> list[int]:
        """Return the base offsets of the batches that are read from `offset` on."""
        data: Any = await self.log.read_patiently(offset, 1 << 20, upper, at_least_one=True)
        return [one.base_offset for one in batches(data)]


async def test_metadata_is_read_from_memory_until_the_disk_has_room() -> None:
    held = Held()
    held.fill()
    held.log.append(batch(2))
    held.log.append(batch(4, EPOCH + 1))
    assert (held.log.log_end_offset, held.log.last_epoch) == (6, EPOCH + 1)
    assert held.journal.log_end_offset == 2
    assert await held.offsets(0, 6) == [0]
    assert await held.offsets(2, 6) == [2, 4]
    assert await held.offsets(3, 4) == [2]
    held.empty()
    held.log.append(batch(6))
    assert (held.log.log_end_offset, held.journal.log_end_offset) == (8, 8)
    assert await held.offsets(0, 8) == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("epoch", "offset", "end_offset"),
    [
        (EPOCH, 8, 8),
        (EPOCH, 7, 6),
        (EPOCH, 4, 4),
        (EPOCH, 3, None),
        (EPOCH, 1, None),
        (EPOCH + 1, 9, 8),
        (EPOCH - 1, 20, None),
    ],
)
async def test_held_records_that_the_leader_does_not_have_are_dropped_unless_they_are_committed(
    epoch: int, offset: int, end_offset: int | None
) -> None:
    held = Held()
    held.fill()
    for base_offset in (2, 4, 6):
        held.log.append(batch(base_offset))
    held.log.append(batch(8, EPOCH + 2))
    held.log.append(batch(10, EPOCH + 3))
    if end_offset is None:
        with pytest.raises(DamagedMetadata):
            await held.log.truncate(EpochEndOffset(epoch, offset))
        assert held.log.log_end_offset == 12
    else:
        await held.log.truncate(EpochEndOffset(epoch, offset))
        assert held.log.log_end_offset == end_offset


async def test_a_snapshot_of_held_records_begins_the_log_at_its_end() -> None:
    held = Held()
    held.fill()
    held.log.append(batch(2))
    held.empty()
    await held.log.begin_at(4, 0)
    assert (held.journal.log_start_offset, held.log.log_end_offset) == (2, 4)


async def test_the_records_that_are_held_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    held, size = Held(), len(batch(0))
    held.fill()
    monkeypatch.setattr(observer_log, "HELD_BYTES_MAX", 2 * size)
    held.log.append(batch(2))
    held.log.append(batch(4))
    with pytest.raises(OSError, match="No space") as refusal:
        held.log.append(batch(6))
    assert refusal.value.errno == errno.ENOSPC
    assert held.log.log_end_offset == 6


async def test_a_new_leader_is_recorded_once_the_disk_has_room() -> None:
    held = Held()
    held.disk.make_directory(METADATA_DIRECTORY)
    held.fill()
    await held.log.note_leader(1, 7)
    held.empty()
    await held.log.note_leader(1, 7)
    state = await read_whole(held.disk, f"{METADATA_DIRECTORY}/quorum-state")
    assert b'"leaderEpoch":7' in state
