"""The statistics of topics: in a cluster, each partition is reported once."""

from __future__ import annotations

import trio
import trio.testing

from pykbroker.broker.group_statistics import log_end
from pykbroker.core.steps import finish
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.topic_statistics import OwnReplica, PlacedPartition, TopicsStatistics, topics_statistics
from tests.unit.replica.brokers import Cluster
from tests.unit.replica.test_replication import until
from wire.sentinels import NO_LEADER

Clock = trio.testing.MockClock


def of(cluster: Cluster, broker: int, partitions_max: int = 100, *, controller: bool = False) -> TopicsStatistics:
    replicas = cluster.brokers[broker].replicas
    return finish(topics_statistics(replicas, partitions_max, with_leaderless=controller))


def placed(cluster: Cluster, broker: int, *, controller: bool = False) -> list[PlacedPartition]:
    (topic,) = of(cluster, broker, controller=controller).topics
    return topic.placed


async def test_each_partition_is_reported_by_its_leader_and_without_one_by_the_active_controller(
    autojump_clock: Clock,
) -> None:
    cluster = Cluster(partitions=3)
    async with cluster.up():
        cluster.cut |= {(2, 1), (3, 1), (1, 2), (3, 2), (1, 3), (2, 3)}
        cluster.commit(1, leader=2, isr=(2, 3))
        cluster.commit(2, leader=NO_LEADER, isr=(3,))
        await until(lambda: cluster.brokers[2].replicas.partition(TopicPartition("t", 1)).is_leader)
        await until(lambda: not cluster.brokers[1].replicas.partition(TopicPartition("t", 2)).is_leader)
        led = [PlacedPartition(0, 1, True, 3, 3, 0, 0)]
        leaderless = [PlacedPartition(2, NO_LEADER, False, 3, 1)]
        assert placed(cluster, 1) == led
        assert placed(cluster, 1, controller=True) == led + leaderless
        assert placed(cluster, 2) == [PlacedPartition(1, 2, False, 3, 2, 0, 0)]
        assert placed(cluster, 3) == []
        assert placed(cluster, 3, controller=True) == leaderless


async def test_only_the_leader_counts_replicas_and_compares_the_isr_with_its_minimum(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=3)
    async with cluster.up():
        await cluster.brokers[1].produce(b"record")
        cluster.cut |= {(2, 1), (3, 1)}
        cluster.commit(1, isr=(1, 2))
        cluster.commit(2, isr=(1,))
        leader = cluster.brokers[1].replicas
        await until(lambda: leader.partition(TopicPartition("t", 2)).leading.isr == (1,))
        size = leader.partition(TopicPartition("t", 0)).log.size_bytes
        (of_leader,), (of_follower,) = of(cluster, 1).topics, of(cluster, 2).topics
        assert of_leader.replicas == [
            OwnReplica(0, size, 3, False, False),
            OwnReplica(1, 0, 3, False, True),
            OwnReplica(2, 0, 3, True, False),
        ]
        assert of_follower.replicas == [OwnReplica(0, size), OwnReplica(1, 0), OwnReplica(2, 0)]


async def test_a_topic_beyond_the_limit_of_partitions_is_omitted(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=3)
    async with cluster.up():
        assert [(len(one.topics), one.partitions_omitted) for one in (of(cluster, 1, 2), of(cluster, 1, 3))] == [
            (0, 3),
            (1, 0),
        ]


async def test_the_end_of_a_log_is_known_to_the_replicas_of_the_isr(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=1)
    async with cluster.up():
        await cluster.brokers[1].produce(b"record")
        key = TopicPartition("t", 0)
        await until(lambda: [log_end(cluster.brokers[one].replicas, key) for one in (1, 2, 3)] == [1, 1, 1])
        cluster.cut |= {(3, 1), (1, 3)}
        cluster.commit(isr=(1, 2))
        await until(lambda: log_end(cluster.brokers[3].replicas, key) is None)
        assert log_end(cluster.brokers[2].replicas, key) == 1
        assert log_end(cluster.brokers[1].replicas, TopicPartition("t", 7)) is None
