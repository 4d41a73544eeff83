"""A move of a followed partition to another log directory, during which the partition's log is truncated."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio

from pykbroker.core.replication.following import CutLog, Following, Restart
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.following.followed import Followed
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.placing.move import Move
from pykbroker.sim.volume import Volume
from pykbroker.world.disk import FileSlice
from tests.unit.replica.host import IDS, NOW_MS, PATHS, TOPIC_ID, Host
from wire.records.batch import batches
from wire.records.builder import BatchBuilder
from wire.records.record import records

COUNT = 30


def batch(offset: int, epoch: int) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    builder.append(None, b"%d of epoch %d" % (offset, epoch), timestamp=NOW_MS)
    return builder.build()


async def values(partition: Partition) -> list[bytes]:
    """Return the values of all records of the partition's log."""
    log = partition.log
    assert log is not None
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = await log.read_patiently(offset, 1 << 20, log.log_end_offset, at_least_one=True)
        stored = await data.file.read(data.offset, data.size) if isinstance(data, FileSlice) else data
        for one in batches(stored):
            found += [bytes(record.value or b"") for record in records(one, 1 << 20)]
            offset = one.last_offset + 1
    return found


class MovedFollower:
    """A followed partition with COUNT records that is about to be moved to the second log directory."""

    def __init__(self) -> None:
        self.host = Host((Volume(), Volume()), IDS[0])

    async def open(self) -> None:
        self.partition = await self.host.open()
        self.partition.resign(Following(1))
        self.moves = self.host.replicas.moves
        self.followed = Followed(self.partition, (TOPIC_ID, 0), 2, 1, self.moves.restart)
        self.append(0, COUNT, epoch=1)
        await self.host.replicas.move(self.partition.key, PATHS[1])

    def append(self, first: int, end: int, *, epoch: int) -> None:
        assert self.partition.log is not None
        self.partition.log.append_stored(b"".join(batch(offset, epoch) for offset in range(first, end)))

    def copy(self) -> Move:
        (move,) = self.moves.into(self.host.directories[1])
        return move


@pytest.fixture
async def moved() -> MovedFollower:
    moved = MovedFollower()
    await moved.open()
    return moved


async def test_the_copy_of_a_truncated_log_is_begun_anew(moved: MovedFollower) -> None:
    await moved.copy().catch_up()
    assert moved.copy().log.log_end_offset == COUNT
    await moved.followed.cut(CutLog(10))
    assert moved.copy().log.log_end_offset == 0
    moved.append(10, COUNT + 10, epoch=2)
    expected = await values(moved.partition)
    await moved.host.finish_moves(moved.partition)
    assert moved.partition.directory is moved.host.directories[1]
    assert await values(moved.partition) == expected
    assert expected[9:11] == [b"9 of epoch 1", b"10 of epoch 2"]


@pytest.mark.parametrize("end", [10, COUNT])
async def test_a_log_that_is_truncated_during_the_hand_over_is_copied_anew(moved: MovedFollower, end: int) -> None:
    expected: list[bytes] = []

    async def assign(placed: Mapping[TopicIdPartition, bytes]) -> None:
        if not expected:
            await moved.followed.cut(CutLog(10))
            moved.append(10, end, epoch=2)
            expected.extend(await values(moved.partition))
        await moved.host.assign(placed)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(moved.moves.run, assign)
            while moved.partition.directory is moved.host.directories[0]:
                await trio.lowlevel.checkpoint()
            async with moved.host.replicas.changing:
                nursery.cancel_scope.cancel()
    assert await values(moved.partition) == expected
    assert len(expected) == end


async def test_a_log_that_begins_inside_the_batch_to_be_appended_next_is_moved(moved: MovedFollower) -> None:
    await moved.followed.cut(Restart(COUNT, COUNT + 2))
    with trio.fail_after(5):
        await moved.host.finish_moves(moved.partition)
    assert moved.partition.log is not None
    assert (moved.partition.log.log_start_offset, moved.partition.log.log_end_offset) == (COUNT + 2, COUNT)
    moved.append(COUNT, COUNT + 4, epoch=2)
    assert (await values(moved.partition))[-1] == b"%d of epoch 2" % (COUNT + 3)
