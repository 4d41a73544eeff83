"""Tests of gaps in a compacted log after a power loss, for every part of the unsynced names that may survive it.

The log has no gap that compaction did not leave, since records were lost there of which later ones survived.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec.structs import replace

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.power_loss import ALL_KEPT, Luck, after_power_loss
from pykbroker.sim.volume import Directory, Volume
from pykbroker.storage.log.log import Log
from tests.unit.storage.compacted import COMPACTED, stored
from tests.unit.storage.logs import DIRECTORY, NOW, batch

CONFIG = replace(COMPACTED, segment_bytes=250)
"""A segment takes two of the batches of `grow`."""
LUCK = Luck(in_order=False, kept=0.5, zeros=0.0, names_in_order=False, names_kept=0.5)
CONTENTS = 3
RANDOM_LOSSES = 300


class Chosen(Random):
    """Dice whose first rolls are chosen: one for each change of names."""

    def __init__(self, chosen: int, count: int, seed: int) -> None:
        super().__init__(seed)
        self._chosen = [float(chosen >> at & 1) for at in range(count)]

    def random(self) -> float:
        return self._chosen.pop() if self._chosen else super().random()


def every_loss(volume: Volume) -> Iterator[Volume]:
    """Yield the volume after power losses that keep each subset of the unsynced names of the log."""
    directory = volume.find(DIRECTORY)
    assert isinstance(directory, Directory)
    assert not volume.root.unsynced.changes
    count = len(directory.unsynced.changes)
    assert 0 < count < 10
    for chosen in range(1 << count):
        for seed in range(CONTENTS):
            yield after_power_loss(volume, Chosen(chosen, count, seed), LUCK)


def kept(volume: Volume) -> Volume:
    """Return a copy of the volume on which everything is durable."""
    return after_power_loss(volume, Random(0), ALL_KEPT)


async def opened(volume: Volume, *, clean: bool = False, recovery_point: int = 0) -> Log:
    return await Log.open(
        SimDisk(volume), DIRECTORY, CONFIG, off_loop=InlineOffLoop(), clean=clean, recovery_point=recovery_point
    )


def grow(log: Log, count: int) -> None:
    for _ in range(count):
        log.appender.append(batch(b"x" * 20, timestamp=NOW), 0, NOW)


async def closed(count: int) -> Volume:
    """Return a durable volume with a log of `count` records that was closed completely."""
    volume = Volume()
    volume.make_directory(DIRECTORY)
    log = await opened(volume)
    grow(log, count)
    await log.close(complete=True)
    return kept(volume)


async def require_no_gap(volume: Volume, *, synced: int) -> None:
    log = await opened(volume, recovery_point=synced)
    found, _ = await stored(log)
    assert [one.base_offset for one in found] == list(range(log.log_end_offset))
    assert log.log_end_offset >= synced


async def test_a_log_that_grew_after_a_clean_stop_gets_no_gap() -> None:
    volume = await closed(1)
    log = await opened(volume, clean=True, recovery_point=1)
    grow(log, 4)
    assert log.segments.count == 3
    for after in every_loss(volume):
        await require_no_gap(after, synced=1)


async def test_a_power_loss_after_a_kill_leaves_no_gap() -> None:
    """The start after the kill writes indexes beside files whose names were not durable."""
    volume = await closed(1)
    grow(await opened(volume, clean=True, recovery_point=1), 6)
    log = await opened(volume, recovery_point=1)
    assert log.segments.count == 4
    for seed in range(RANDOM_LOSSES):
        await require_no_gap(after_power_loss(volume, Random(seed), LUCK), synced=1)


async def test_an_index_without_a_segment_proves_nothing_about_a_later_segment_of_its_name() -> None:
    volume, index = await closed(5), f"{4:020d}.index"
    disk = SimDisk(volume)
    for name in disk.names(DIRECTORY):
        if name != index and name[:20] in (f"{2:020d}", f"{4:020d}"):
            disk.remove(f"{DIRECTORY}/{name}")
    assert index in disk.names(DIRECTORY)
    volume = kept(volume)
    log = await opened(volume, recovery_point=2)
    grow(log, 3)
    assert [one.base_offset for one in log.segments.every()] == [0, 2, 4]
    for after in every_loss(volume):
        await require_no_gap(after, synced=2)


async def test_a_gap_that_compaction_left_before_a_segment_without_index_stays() -> None:
    """A full disk left out the index, and no checkpoint lists the compaction yet."""
    volume = await closed(0)
    log = await opened(volume)
    grow(log, 5)
    await log.flush()
    SimDisk(volume).remove(f"{DIRECTORY}/{2:020d}.index")
    await log.shrinker.swap_in(log.shrinker.begin_cleaned(log.segments.sealed[:1]))
    for seed in range(CONTENTS):
        again = await opened(after_power_loss(volume, Random(seed), LUCK))
        assert [one.base_offset for one in (await stored(again))[0]] == [2, 3, 4]
