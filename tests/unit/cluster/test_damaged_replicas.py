"""Damaged, missing and failed log directories in clusters of complete brokers: replicas are fetched anew."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
import trio

from pykbroker.broker.parts import Parts
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from tests.unit.apis.conftest import batch
from tests.unit.cluster.nodes import Cluster, Node, cluster, eventually
from tests.unit.cluster.test_replicated_topics import REPLICATED
from wire.error_codes import ErrorCode
from wire.messages.describe_log_dirs import DescribeLogDirsRequest

EIO = OSError(errno.EIO, "Input/output error")
ALL = [1, 2, 3]
RETRIED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT)
"""The errors after which a producer sends a record again, which may append it twice."""


def parts(running: Cluster, node_id: int) -> Parts:
    found: Parts = running.brokers[node_id].serving.observer.parts
    return found


def replica(running: Cluster, node_id: int, index: int = 0) -> Partition:
    return parts(running, node_id).replicas.partition(TopicPartition("t", index))


def placed(running: Cluster, index: int = 0) -> PartitionImage:
    return parts(running, 1).image().topics.by_name["t"].partitions[index]


async def fill(running: Cluster, count: int = 5, partitions: int = 1) -> None:
    """Append records to each partition, acknowledged by the whole ISR."""
    for index in range(partitions):
        for number in range(count):
            code = -1
            while code:
                client = running.clients[max(1, placed(running, index).leader)]
                code = (await client.produce("t", batch(b"%d" % number), partition=index)).error_code
                assert code in (0, *RETRIED)


async def repaired(running: Cluster, node_id: int, partitions: int = 1) -> None:
    """Wait until a broker's replicas are in the ISR, in the directory that the metadata names."""

    async def is_repaired() -> bool:
        for index in range(partitions):
            own, image = replica(running, node_id, index), placed(running, index)
            here = parts(running, node_id).replicas.places.id_of(own.directory)
            if sorted(image.isr) != ALL or own.repair is not None or image.directory(node_id) != here:
                return False
        return True

    await eventually(is_repaired)


def contents(tmp_path: Path, index: int = 0) -> set[bytes]:
    """Return the different contents of a partition's log files on all brokers."""
    found = sorted(tmp_path.glob(f"node*/t-{index}/*.log"))
    assert len(found) == len(ALL)
    return {path.read_bytes() for path in found}


def strays(running: Cluster, node_id: int) -> list[str]:
    """Return the names of the directories that a node has set aside."""
    directories = running.nodes[node_id].directories
    return [path.name for directory in directories for path in directory.glob("*-stray")]


async def unpaced(_: int) -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("of_leader", [True, False])
async def test_a_damaged_log_is_fetched_anew_and_loses_nothing(tmp_path: Path, of_leader: bool) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED) as running:
        await running.clients[1].create("t")
        await fill(running)
        leader = placed(running).leader
        node_id = leader if of_leader else next(one for one in ALL if one != leader)
        path = running.nodes[node_id].directory / "t-0" / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[70] ^= 1
        path.write_bytes(content)
        with pytest.raises(ApiError):
            await replica(running, node_id).scrub(unpaced)
        await repaired(running, node_id)
        await fill(running)
        assert len(contents(tmp_path)) == 1
        log = replica(running, node_id).log
        assert log is not None
        assert log.log_end_offset >= 10
        assert (placed(running).leader != leader) == of_leader
        assert strays(running, node_id) == []


async def test_the_replicas_of_a_wiped_directory_are_fetched_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, **REPLICATED) as running:
        await running.clients[1].create("t", 3)
        await fill(running, partitions=3)
        await running.stop(3)
        shutil.rmtree(running.nodes[3].directory)
        await running.start(3)
        await repaired(running, 3, partitions=3)
        assert all(len(contents(tmp_path, index)) == 1 for index in range(3))


async def test_the_replicas_of_a_failed_directory_move_to_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, 1, 2, 3, disks="2", **REPLICATED) as running:
        await running.clients[1].create("t", 4)
        await fill(running, partitions=4)
        directory = parts(running, 2).directories[1]
        failed_id = parts(running, 2).replicas.places.id_of(directory)
        hit = [index for index in range(4) if replica(running, 2, index).directory is directory]
        assert hit
        directory.fail(EIO)
        await fill(running, partitions=4)
        await repaired(running, 2, partitions=4)
        assert failed_id not in parts(running, 1).image().cluster.brokers[2].directories
        assert all(replica(running, 2, index).directory is parts(running, 2).directories[0] for index in hit)
        await running.stop(2)
        await running.start(2)
        await repaired(running, 2, partitions=4)
        for index in hit:
            assert any(name.startswith(f"t-{index}.") for name in strays(running, 2))
            assert replica(running, 2, index).directory is parts(running, 2).directories[0]
        assert failed_id in parts(running, 1).image().cluster.brokers[2].directories
    assert "Traceback" not in caplog.text


async def test_cordoned_directories_receive_no_new_replicas(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, broker_heartbeat_interval_ms="100") as running:
        controller = running.nodes[1].controller_address
        running.nodes[3] = Node(3, tmp_path / "node3", controller, cordoned_log_dirs="*")
        await running.start(3)

        async def is_cordoned() -> bool:
            return bool(parts(running, 1).image().cluster.brokers[3].cordoned)

        await eventually(is_cordoned)
        await running.clients[1].create("t", 6)
        assert {placed(running, index).replicas for index in range(6)} == {(1,), (2,)}
        described = await running.clients[3].call(DescribeLogDirsRequest(topics=None), 5)
        assert [one.is_cordoned for one in described.results] == [True]
