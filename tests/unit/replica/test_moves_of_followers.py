"""A move of a followed partition to another log directory, during which the partition's log is truncated."""

from __future__ import annotations

from pykbroker.core.replication.following import CutLog
from pykbroker.replica.followed import Followed
from pykbroker.replica.partition import Partition
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
    offset = 0
    while offset < log.log_end_offset:
        data = await log.read_patiently(offset, 1 << 20, log.log_end_offset, at_least_one=True)
        stored = await data.file.read(data.offset, data.size) if isinstance(data, FileSlice) else data
        for one in batches(stored):
            found += [bytes(record.value or b"") for record in records(one, 1 << 20)]
            offset = one.last_offset + 1
    return found


async def test_the_copy_of_a_truncated_log_is_begun_anew() -> None:
    host = Host((Volume(), Volume()), IDS[0])
    partition = await host.open()
    partition.resign(1)
    assert partition.log is not None
    moves = host.replicas.moves
    followed = Followed(partition, (TOPIC_ID, 0), 2, 1, moves.restart)
    partition.log.append_stored(b"".join(batch(offset, 1) for offset in range(COUNT)))
    await host.replicas.move(partition.key, PATHS[1])
    (move,) = moves.into(host.directories[1])
    await move.catch_up()
    assert move.log.log_end_offset == COUNT
    await followed.cut(CutLog(10))
    (move,) = moves.into(host.directories[1])
    assert move.log.log_end_offset == 0
    partition.log.append_stored(b"".join(batch(offset, 2) for offset in range(10, COUNT + 10)))
    expected = await values(partition)
    await host.finish_moves(partition)
    assert partition.directory is host.directories[1]
    assert await values(partition) == expected
    assert expected[9:11] == [b"9 of epoch 1", b"10 of epoch 2"]
