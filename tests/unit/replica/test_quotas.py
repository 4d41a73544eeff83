"""Tests of replication quotas between brokers: throttled replicas wait, all others do not (KIP-73)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest
import trio
import trio.testing

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.metadata.image import ConfigsImage, Delta, MetadataImage, TopicImage
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.quotas import ReplicationQuotas
from tests.unit.replica.brokers import Cluster, batch, pause
from tests.unit.replica.host import NOW_MS
from tests.unit.replica.test_replication import until
from wire.messages.fetch import FetchRequest

Clock = trio.testing.MockClock
BYTES_PER_S = 100_000
RECORD = b"r" * 100_000
COUNT = 30
"""The throttled records: three responses, which have at most 1 MiB each."""
THROTTLED, FREE = 0, 1
TOPIC, BROKER = 2, 4
BYTES_OF_FETCH = 1 << 20


class Side(NamedTuple):
    """The side of replication that is throttled, with its broker and its configs."""

    node_id: int
    rate: str
    replicas: str


LEADER = Side(1, "leader.replication.throttled.rate", "leader.replication.throttled.replicas")
FOLLOWER = Side(3, "follower.replication.throttled.rate", "follower.replication.throttled.replicas")
SIDES = pytest.mark.parametrize("side", [LEADER, FOLLOWER], ids=["leader", "follower"])


def throttle(cluster: Cluster, side: Side, replicas: str) -> None:
    cluster.configure((TOPIC, "t"), {"min.insync.replicas": "1", side.replicas: replicas})
    cluster.configure((BROKER, str(side.node_id)), {side.rate: str(BYTES_PER_S)})


def append(cluster: Cluster, index: int, count: int) -> None:
    partition = cluster.brokers[1].replicas.partition(TopicPartition("t", index))
    for _ in range(count):
        assert partition.append(batch(RECORD), NOW_MS) is not None


def end(cluster: Cluster, node_id: int, index: int) -> int:
    log = cluster.brokers[node_id].replicas.partition(TopicPartition("t", index)).log
    assert log is not None
    return log.log_end_offset


def has_ended_at(cluster: Cluster, count: int) -> bool:
    """Whether broker 3 has this number of records of the partition that is not throttled."""
    return end(cluster, 3, FREE) == count


async def behind(cluster: Cluster) -> None:
    """Append to both partitions while broker 3 is down and out of the ISRs, then start it."""
    for index in (THROTTLED, FREE):
        cluster.commit(index, isr=(1, 2))
    await until(lambda: cluster.brokers[1].has_partition)
    for index in (THROTTLED, FREE):
        append(cluster, index, COUNT)
        partition = cluster.brokers[1].replicas.partition(TopicPartition("t", index))
        await partition.wait_committed(COUNT)
    await cluster.start(3)
    await until(lambda: cluster.brokers[3].has_partition)


@SIDES
async def test_a_throttled_replica_catches_up_at_the_rate_of_the_quota_and_others_at_once(
    autojump_clock: Clock, side: Side
) -> None:
    cluster = Cluster(partitions=2)
    throttle(cluster, side, f"{THROTTLED}:{side.node_id}")
    async with cluster.up(1, 2):
        await behind(cluster)
        began = trio.current_time()
        await until(lambda: end(cluster, 3, FREE) == COUNT)
        assert trio.current_time() - began < 1
        assert end(cluster, 3, THROTTLED) < COUNT
        await until(lambda: end(cluster, 3, THROTTLED) == COUNT)
        least = (COUNT * len(RECORD) - 2 * BYTES_OF_FETCH) / BYTES_PER_S
        assert least < trio.current_time() - began < 2 * COUNT * len(RECORD) / BYTES_PER_S
        await until(lambda: 3 in cluster.placed(THROTTLED).isr)


@SIDES
async def test_records_of_an_unthrottled_partition_do_not_wait_for_a_throttled_one(
    autojump_clock: Clock, side: Side
) -> None:
    cluster = Cluster(partitions=2)
    throttle(cluster, side, f"{THROTTLED}:{side.node_id}")
    async with cluster.up(1, 2):
        await behind(cluster)
        await until(lambda: end(cluster, 3, FREE) == COUNT)
        for count in range(COUNT + 1, COUNT + 11):
            append(cluster, FREE, 1)
            began = trio.current_time()
            await until(partial(has_ended_at, cluster, count))
            assert trio.current_time() - began < 0.1
        assert end(cluster, 3, THROTTLED) < COUNT


@SIDES
async def test_members_of_the_isr_are_not_throttled(autojump_clock: Clock, side: Side) -> None:
    cluster = Cluster(partitions=2)
    throttle(cluster, side, "*")
    async with cluster.up():
        began = trio.current_time()
        for number in range(20):
            assert await cluster.brokers[1].produce(RECORD) == number
        assert trio.current_time() - began < 2
        assert side.node_id in cluster.placed(THROTTLED).isr


@SIDES
async def test_a_replica_goes_on_once_its_throttle_is_removed(autojump_clock: Clock, side: Side) -> None:
    cluster = Cluster(partitions=2)
    throttle(cluster, side, "*")
    async with cluster.up(1, 2):
        await behind(cluster)
        await pause(1)
        assert end(cluster, 3, THROTTLED) < COUNT
        cluster.configure((TOPIC, "t"), {"min.insync.replicas": "1"})
        began = trio.current_time()
        await until(lambda: end(cluster, 3, THROTTLED) == end(cluster, 3, FREE) == COUNT)
        assert trio.current_time() - began < 2


async def test_appends_to_a_throttled_partition_do_not_wake_its_follower(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=2)
    throttle(cluster, LEADER, "*")
    async with cluster.up(1, 2):
        await behind(cluster)
        await pause(2)
        before = fetches(cluster)
        for _ in range(20):
            append(cluster, THROTTLED, 1)
            await pause(0.05)
        assert fetches(cluster) - before < 5


def fetches(cluster: Cluster) -> int:
    """Return how often broker 3 has fetched from broker 1."""
    return sum(source == 3 and isinstance(asked, FetchRequest) for source, _, asked in cluster.requests)


def configured(resources: dict[tuple[int, str], dict[str, str]]) -> Delta:
    return Delta.since_nothing(MetadataImage(offset=1, configs=ConfigsImage(resources)))


def test_the_rate_of_a_broker_takes_precedence_over_that_of_all_brokers():
    quotas = ReplicationQuotas(1)
    rate = "leader.replication.throttled.rate"
    quotas.apply(configured({(BROKER, ""): {rate: "10"}, (BROKER, "1"): {rate: "20"}, (BROKER, "2"): {rate: "1"}}))
    quotas.leader.record(20, 0)
    assert not quotas.leader.is_exceeded(0)
    quotas.leader.record(1, 0)
    assert quotas.leader.is_exceeded(0)
    quotas.apply(configured({(BROKER, ""): {"follower.replication.throttled.rate": "1"}}))
    assert not quotas.leader.is_exceeded(0)


def test_a_deleted_topic_is_throttled_no_longer():
    quotas, key = ReplicationQuotas(1), TopicPartition("t", 0)
    quotas.apply(configured({(TOPIC, "t"): {"leader.replication.throttled.replicas": "*"}}))
    assert quotas.leader.covers(key)
    assert not quotas.follower.covers(key)
    image = MetadataImage(offset=2)
    quotas.apply(Delta(image, image, topics_deleted=(TopicImage("t", bytes(16), {}),)))
    assert not quotas.leader.covers(key)


def test_the_windows_of_quotas_are_configs():
    config = BrokerConfig.from_mapping(
        {
            "replication.quota.window.num": "2",
            "replication.quota.window.size.seconds": "3",
            "alter.log.dirs.replication.quota.window.num": "4",
            "alter.log.dirs.replication.quota.window.size.seconds": "5",
        }
    )
    quotas = ReplicationQuotas(1, config)
    for quota, forgotten_ms in ((quotas.leader, 6000), (quotas.follower, 6000), (quotas.alter_log_dirs, 20_000)):
        quota.limit(0)
        quota.record(1, 0)
        assert quota.wait_ms(0) == forgotten_ms
