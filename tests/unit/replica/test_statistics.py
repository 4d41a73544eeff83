"""The statistics of replication: they follow what happens to the replicas."""

from __future__ import annotations

import trio
import trio.testing

from pykbroker.core.steps import finish
from pykbroker.replica.statistics import ReplicaStatistics, replica_statistics
from tests.unit.replica.brokers import LAG_MS_MAX, Cluster, pause
from tests.unit.replica.test_replication import until
from wire.error_codes import ErrorCode

Clock = trio.testing.MockClock


def of(cluster: Cluster, broker: int) -> ReplicaStatistics:
    return finish(replica_statistics(cluster.brokers[broker].replicas))


async def test_partitions_are_counted_by_role_and_as_at_or_under_the_minimum_of_replicas(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=100)
    async with cluster.up():
        await until(lambda: of(cluster, 1).leaders == 100)
        assert of(cluster, 1) == ReplicaStatistics(100, 100, 0)
        assert of(cluster, 2) == ReplicaStatistics(100, 0, 0)
        cluster.cut |= {(2, 1), (3, 1)}  # no replica comes back to an ISR
        for index in range(5):
            cluster.commit(index, isr=(1, 2))
        cluster.commit(5, isr=(1,))
        await until(lambda: of(cluster, 1).under_replicated == 6)
        found = of(cluster, 1)
        assert (found.at_min_isr, found.under_min_isr) == (5, 1)
        assert of(cluster, 2).under_replicated == 0


async def test_a_follower_that_leaves_the_isr_and_comes_back_is_counted_as_shrink_and_expansion(
    autojump_clock: Clock,
) -> None:
    cluster = Cluster()
    async with cluster.up():
        await cluster.brokers[1].produce(b"first")
        cluster.cut |= {(3, 1), (1, 3)}
        await cluster.brokers[1].produce(b"second")  # waits until broker 3 has left the ISR
        found = of(cluster, 1)
        assert (found.isr_shrinks, found.isr_expansions, found.under_replicated) == (1, 0, 1)
        cluster.cut.clear()
        await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3])
        await pause(1)
        found = of(cluster, 1)
        assert (found.isr_shrinks, found.isr_expansions, found.under_replicated) == (1, 1, 0)
        assert of(cluster, 2).isr_shrinks == 0


async def test_a_change_that_metadata_commits_before_its_answer_is_counted_once(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        own, partition = cluster.brokers[1].own, cluster.brokers[1].partition
        cluster.cut |= {(3, 1), (1, 3)}
        cluster.latency_s = 0.2  # of the answer
        await partition_is_proposed(cluster)
        cluster.commit(isr=(1, 2))
        await pause(LAG_MS_MAX / 1000)
        assert (own.isr_shrinks, own.isr_expansions) == (1, 0)
        assert partition.leading is not None
        assert partition.leading.pending is None


async def partition_is_proposed(cluster: Cluster) -> None:
    """Wait until the leader has proposed an ISR that has not been answered yet."""
    await cluster.brokers[1].produce(b"to all but one", acks_all=False)
    leading = cluster.brokers[1].partition.leading
    assert leading is not None
    await until(lambda: leading.pending is not None)


async def test_refused_changes_are_counted(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await cluster.brokers[1].produce(b"first")
        cluster.uninformed = {1}
        cluster.commit(isr=(1, 2, 3))  # so that the partition epoch of the leader is outdated
        cluster.cut |= {(3, 1), (1, 3)}
        await cluster.brokers[1].produce(b"waits", acks_all=False)
        await until(lambda: of(cluster, 1).isr_refusals > 0)
        assert cluster.refusals == [ErrorCode.INVALID_UPDATE_VERSION]
        assert (of(cluster, 1).isr_refusals, of(cluster, 1).isr_shrinks) == (1, 0)


async def test_a_reassignment_is_counted_and_its_added_replica_is_not_missed(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(1, 2))
    async with cluster.up():
        cluster.commit(replicas=(1, 2, 3), adding=(3,), directories=())
        await pause(0.001)
        found = of(cluster, 1)
        assert (found.reassigning, found.under_replicated) == (1, 0)
        cluster.commit(adding=(), isr=(1, 2, 3))
        await pause(0.01)
        assert of(cluster, 1).reassigning == 0


async def test_the_largest_lag_is_that_to_the_high_watermark_of_the_leader(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=2)
    async with cluster.up():
        leader = cluster.brokers[1]
        await leader.produce(b"all have it")
        followed = next(one for one in cluster.brokers[3].fetchers.followed() if one.partition.index == 0)
        await pause(1)
        assert (followed.lag, of(cluster, 3).max_lag) == (0, 0)
        assert [of(cluster, broker).max_lag for broker in (1, 2)] == [0, 0]
        await cluster.kill(3)
        for _ in range(50):
            await leader.produce(bytes(50_000))
        cluster.brokers[3].configs["replica.fetch.max.bytes"] = "60000"
        lags = set[int]()
        await cluster.start(3)
        while 3 not in cluster.placed().isr or of(cluster, 3).max_lag:
            lags.add(of(cluster, 3).max_lag)
            await pause(0.001)
        assert max(lags) > 10
