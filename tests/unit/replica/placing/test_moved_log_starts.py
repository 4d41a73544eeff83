"""Tests of log starts that move while a follower is away, after retention or DeleteRecords, on three brokers.

A follower whose log ends below the leader's start begins anew there. All brokers are then killed: nothing that was
remembered beside the old log may make a start drop the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from trio.testing import MockClock as Clock

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.log.log import Log
from tests.unit.replica.brokers import Cluster, pause
from tests.unit.replica.host import NOW_MS
from tests.unit.replica.test_replication import until
from wire.records.batch import batches
from wire.records.builder import BatchBuilder

KEY = TopicPartition("t", 0)
SEGMENTS = {"internal.segment.bytes": "300"}


def batch(*values: bytes, **fields: Any) -> bytes:
    builder = BatchBuilder(**fields)
    for value in values:
        builder.append(None, value, timestamp=NOW_MS)
    return builder.build()


async def append(cluster: Cluster, leader: int, *values: bytes, **fields: Any) -> int:
    """Append a batch with acks=all, and return its base offset."""
    partition = cluster.brokers[leader].partition
    appended = partition.append(batch(*values, **fields), NOW_MS, None, True)
    assert appended is not None
    await partition.wait_committed(appended.last_offset + 1)
    return appended.base_offset


def log_of(cluster: Cluster, node_id: int) -> Log:
    log = cluster.brokers[node_id].partition.log
    assert log is not None
    return log


def places(cluster: Cluster) -> set[tuple[int, int]]:
    """Return the log start and end offsets of all replicas that run."""
    return {(log_of(cluster, each).log_start_offset, log_of(cluster, each).log_end_offset) for each in cluster.running}


def leads(cluster: Cluster, node_id: int) -> bool:
    return cluster.brokers[node_id].partition.is_leader


async def away(cluster: Cluster, start: Callable[[Log], object]) -> None:
    """Let broker 3 be away while the leader's log start passes the end of its log, and come back."""
    for number in range(20):
        await append(cluster, 1, b"%d" % number, producer_id=5, producer_epoch=0, base_sequence=number)
    await until(lambda: log_of(cluster, 3).log_end_offset == 20)
    await cluster.kill(3)
    cluster.commit(isr=(1, 2))
    cluster.set_broker(3, epoch=301)
    for number in range(20):
        await append(cluster, 1, b"a", b"%d" % number, producer_id=6, producer_epoch=0, base_sequence=2 * number)
    start(log_of(cluster, 1))
    await cluster.brokers[1].partition.retain(NOW_MS)
    await until(lambda: len(places(cluster)) == 1)
    await cluster.start(3)
    await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3])


async def restart_all(cluster: Cluster) -> None:
    for node_id in (1, 2, 3):
        await cluster.kill(node_id)
    for node_id in (1, 2, 3):
        cluster.set_broker(node_id, epoch=cluster.image.cluster.brokers[node_id].epoch + 1)
        await cluster.start(node_id)


@pytest.mark.parametrize("offset", [40, 41, 59, 60], ids=["batch", "inside", "last record", "all"])
@pytest.mark.parametrize("epochs", [0, 1, 2])
async def test_a_log_that_began_anew_survives_a_kill_of_all_brokers(
    autojump_clock: Clock, offset: int, epochs: int
) -> None:
    cluster = Cluster(configs=SEGMENTS)
    async with cluster.up():
        await away(cluster, lambda log: log.delete_records(offset))
        for leader in (2, 1)[:epochs]:  # each begins a leader epoch, which writes what the followers remember
            cluster.commit(leader=leader)
            await until(partial(leads, cluster, leader))
            await append(cluster, leader, b"x")
        end = log_of(cluster, 3).log_end_offset
        await until(lambda: {last for _, last in places(cluster)} == {end})
        assert log_of(cluster, 3).log_start_offset == offset
        assert all(one.last_offset >= offset for one in batches(cluster.brokers[3].content()))
        kept = cluster.brokers[3].content()
        await restart_all(cluster)
        assert cluster.brokers[3].content() == kept
        cluster.commit(leader=3)
        await until(partial(leads, cluster, 3))
        assert await append(cluster, 3, b"on") == end
        await until(lambda: {last for _, last in places(cluster)} == {end + 1})
        assert all(one.content().endswith(cluster.brokers[3].content()) for one in cluster.brokers.values())


async def test_an_emptied_replica_joins_after_records_were_deleted_up_to_the_middle_of_a_batch(
    autojump_clock: Clock,
) -> None:
    """The leader sends the batch of its log start whole (KAFKA-6975)."""
    cluster = Cluster()
    async with cluster.up():
        for number in range(10):
            await append(cluster, 1, *(b"%d" % (10 * number + each) for each in range(10)))
        await cluster.kill(3)
        cluster.commit(isr=(1, 2))
        cluster.set_broker(3, epoch=301)
        log_of(cluster, 1).delete_records(45)
        cluster.brokers[3].volume = type(cluster.brokers[3].volume)()
        await cluster.start(3)
        await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3])
        await until(lambda: places(cluster) == {(45, 100)})
        assert [one.base_offset for one in batches(cluster.brokers[3].content())] == list(range(40, 100, 10))
        await append(cluster, 1, b"on")
        await cluster.brokers[3].directory.checkpoints.write()
        await restart_all(cluster)
        assert (log_of(cluster, 3).log_start_offset, log_of(cluster, 3).log_end_offset) == (45, 101)


async def with_stale_epochs(cluster: Cluster) -> None:
    """Kill broker 3, whose leader epochs begin below its log, as if its first segments were missing."""
    await cluster.brokers[3].directory.checkpoints.write()
    await cluster.kill(3)
    directory = cluster.brokers[3].volume.find_directory("t-0")
    directory.entries["leader-epoch-checkpoint"].content[:] = b"0\n1\n0 0\n"


async def test_a_log_that_may_lack_its_begin_is_fetched_anew(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(configs=SEGMENTS)
    async with cluster.up():
        await away(cluster, lambda log: log.delete_records(40))
        await append(cluster, 1, b"x")
        await with_stale_epochs(cluster)
        cluster.set_broker(3, epoch=302)
        await cluster.start(3)
        await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3] and cluster.brokers[3].partition.repair is None)
        await until(lambda: places(cluster) == {(40, 61)})
    assert "its leader epochs at 0: the records in between are missing" in caplog.text
    assert "the damaged log is kept as" in caplog.text


async def test_an_only_replica_that_may_lack_its_begin_stays_offline(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(3,), configs={"min.insync.replicas": "1", **SEGMENTS})
    async with cluster.up():
        for number in range(20):
            await append(cluster, 3, b"%d" % number)
        log_of(cluster, 3).delete_records(log_of(cluster, 3).segments.every()[3].base_offset)
        await cluster.brokers[3].partition.retain(NOW_MS)
        await with_stale_epochs(cluster)
        kept = cluster.brokers[3].content()
        await cluster.start(3)
        assert not cluster.brokers[3].partition.is_online
        await pause(30)
        assert (cluster.brokers[3].partition.is_online, cluster.brokers[3].content()) == (False, kept)
