"""A follower's replica moves to another log directory while it follows (KIP-113)."""

from __future__ import annotations

from pathlib import Path

import trio

from pykbroker.broker.parts import Parts
from tests.unit.apis.conftest import batch
from tests.unit.cluster.nodes import Cluster, cluster, eventually
from tests.unit.cluster.test_damaged_replicas import ALL, contents, parts, placed, replica
from tests.unit.cluster.test_replicated_topics import REPLICATED
from wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic

MORE = 20
"""The number of records that are appended after the replica has moved."""


async def produce(running: Cluster, leader: int, stop: trio.Event) -> int:
    """Append records with acks=all until `stop` is set, and some more. Return their number."""
    count, left = 0, MORE
    while left:
        answer = await running.clients[leader].produce("t", batch(b"%d" % count * 1000))
        assert (answer.error_code, answer.base_offset) == (0, count)
        count += 1
        left -= stop.is_set()
    return count


async def move(running: Cluster, node_id: int, path: str) -> None:
    """Move the replica of a broker to this directory, and wait until the metadata names the directory."""
    wanted = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("t", [0])])
    response = await running.clients[node_id].call(AlterReplicaLogDirsRequest([wanted]), 2)
    assert response.results[0].partitions[0].error_code == 0
    own: Parts = parts(running, node_id)

    async def is_there() -> bool:
        directory = replica(running, node_id).directory
        here = own.replicas.places.id_of(directory)
        return directory.path == path and {placed(running).directory(node_id)} == {here}

    await eventually(is_there)


async def test_a_follower_moves_while_its_leader_appends_and_has_the_same_log_afterwards(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, disks="2", **REPLICATED) as running:
        await running.clients[1].create("t")
        leader = placed(running).leader
        follower = next(one for one in (2, 3) if one != leader)  # the controller would come back on another port
        one, other = (directory.path for directory in parts(running, follower).directories)
        begun = replica(running, follower).directory.path
        stop, counts = trio.Event(), list[int]()
        async with trio.open_nursery() as nursery:

            async def work() -> None:
                counts.append(await produce(running, leader, stop))

            nursery.start_soon(work)
            for path in (other, one) if begun == one else (one, other):
                await move(running, follower, path)
            stop.set()
        assert sorted(placed(running).isr) == ALL
        assert len(contents(tmp_path)) == 1
        log = replica(running, follower).log
        assert log is not None
        assert log.log_end_offset == counts[0] > MORE
        await running.stop(follower)
        await running.start(follower)

        async def is_in_sync() -> bool:
            return sorted(placed(running).isr) == ALL

        await eventually(is_in_sync)
        assert replica(running, follower).directory.path == begun
        assert len(contents(tmp_path)) == 1
