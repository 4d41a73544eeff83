"""Tests of power losses and kills at any point of a move: every acknowledged record survives, in exactly one log."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.power_loss import ALL_KEPT, Luck, after_power_loss
from pykbroker.sim.volume import DiskCall, Volume
from tests.unit.replica.host import IDS, NOW_MS, Host
from tests.unit.storage.logs import batch, every_byte
from wire.records.batch import batches

pytestmark = pytest.mark.timeout(240)  # Seconds of CPU time, which take longer on a busy machine.

ENDINGS = 3


class RecordedMove:
    """A recorded move: the changes to two volumes, and after each change the offsets that a crash must not lose."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)
        self.calls: list[tuple[int, DiskCall]] = []
        volumes = (Volume(), Volume())
        for number, volume in enumerate(volumes):
            volume.noted = lambda name, args, number=number: self.calls.append((number, (name, args)))
        self.host = Host(volumes, IDS[0], self.note)
        self.facts: list[tuple[int, int, int, bytes]] = []
        self._synced = 0

    async def run(self) -> RecordedMove:
        self.partition = await self.host.open()
        for number in range(8):
            await self.append(number)
        for path in ("two", "one"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.continue_after_crash)
                await self.host.replicas.move(TopicPartition("t", 0), path)
                await self.host.move_away(self.partition)
                nursery.cancel_scope.cancel()
            await self.append(0)
        return self

    async def continue_after_crash(self) -> None:
        while True:
            await self.append(self._dice.randrange(20))
            for _ in range(self._dice.randrange(4)):
                await trio.lowlevel.checkpoint()

    async def append(self, number: int) -> None:
        self.partition.append(batch(b"%d" % number * (1 + number * 20)), NOW_MS)
        self.note()
        if self._dice.random() < 0.3:
            end = self.partition.high_watermark
            await self.partition.flush()
            self._synced = max(self._synced, end)
            self.note()

    def note(self) -> None:
        """Record, after this number of changes, the offsets that survive a kill or a power loss, and the right
        directory.
        """
        self.facts.append((len(self.calls), self.partition.high_watermark, self._synced, self.host.assigned))

    def endings(self) -> Iterator[tuple[int, tuple[Volume, ...], int]]:
        """Yield (number of changes, volumes after the crash, number of offsets that must survive) for each change."""
        volumes, facts = (Volume(), Volume()), iter([*self.facts, (1 << 60, 0, 0, b"")])
        following, appended, synced = next(facts), 0, 0
        for point, (number, (name, args)) in enumerate(self.calls, 1):
            while following[0] < point:
                _, appended, synced, _ = following
                following = next(facts)
            volumes[number].play((name, args))
            if "/" in str(args[0]) and point % 5:
                continue  # Crashes between two changes of directories have similar results.
            yield point, tuple(after_power_loss(one, Random(0), ALL_KEPT) for one in volumes), appended
            for ending in range(ENDINGS):
                dice = Random(f"{point} {ending}")
                luck = Luck.drawn(dice)
                yield point, tuple(after_power_loss(one, dice, luck) for one in volumes), synced


@pytest.mark.parametrize("seed", range(2))
async def test_no_crash_during_a_move_loses_acknowledged_records_or_leaves_two_logs(seed: int) -> None:
    life = await RecordedMove(seed).run()
    written = await every_byte_of(life.partition)
    count = 0
    for point, volumes, promised in life.endings():
        host = Host(volumes, last_before(life.facts, point))
        partition = await host.open()
        what = f"point {point}: {life.calls[point - 1]}"
        assert partition.is_online, what
        found = await every_byte_of(partition)
        assert written.startswith(found), what
        assert partition.high_watermark >= promised, what
        await host.finish_moves(partition)
        assert await every_byte_of(partition) == found, what
        assert partition.append(batch(b"more"), NOW_MS), what
        count += 1
    assert count > 100


def last_before(facts: list[tuple[int, int, int, bytes]], point: int) -> bytes:
    return [IDS[0], *(one for at, *_, one in facts if at <= point)][-1]


async def every_byte_of(partition: Partition) -> bytes:
    assert partition.log is not None
    data = await every_byte(partition.log)
    assert all(one.crc_ok() for one in batches(data))
    return data
