"""Tests of the choice of a replica in a consumer's rack."""

from __future__ import annotations

import pytest
import trio.testing
from msgspec.structs import replace

from pykbroker.core.metadata.image import ClusterImage
from pykbroker.replica.leading.read_replica import RackAwareSelector
from tests.unit.apis.calling import context
from tests.unit.replica.brokers import TOPIC_ID, Cluster, responded
from tests.unit.replica.test_replication import equal, until
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

RACKS = {1: "a", 2: "b", 3: "c"}


async def test_the_leader_names_the_replica_in_the_rack_of_the_consumer(autojump_clock: trio.testing.MockClock) -> None:
    cluster = Cluster()
    brokers = {each: replace(one, rack=RACKS[each]) for each, one in cluster.image.cluster.brokers.items()}
    cluster.publish(cluster=ClusterImage(brokers))
    async with cluster.up():
        leader = cluster.brokers[1]
        await leader.produce(b"value")
        await until(equal(cluster, 1, 1, 2, 3))
        select = RackAwareSelector(lambda: cluster.image)
        found = {rack: select.choose(leader.partition, rack, 1) for rack in ("a", "b", "c", "d")}
        assert found == {"a": -1, "b": 2, "c": 3, "d": -1}
        assert select.choose(leader.partition, "b", 2) == -1
        cluster.commit(isr=(1, 3))
        await until(lambda: leader.partition.role.isr == (1, 3))
        assert select.choose(leader.partition, "b", 1) == -1


@pytest.mark.parametrize(("rack", "preferred"), [("b", 2), ("", -1)])
async def test_a_fetch_is_answered_at_once_with_the_preferred_replica(
    autojump_clock: trio.testing.MockClock, rack: str, preferred: int
) -> None:
    cluster = Cluster()
    brokers = {each: replace(one, rack=RACKS[each]) for each, one in cluster.image.cluster.brokers.items()}
    cluster.publish(cluster=ClusterImage(brokers))
    async with cluster.up():
        await cluster.brokers[1].produce(b"value")
        fetch = cluster.brokers[1].handlers[FetchRequest]
        selecting = replace(fetch, selector=RackAwareSelector(lambda: cluster.image))
        asked = FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(0, 0, 1, partition_max_bytes=1 << 20)])
        request = FetchRequest(rack_id=rack, max_wait_ms=500, min_bytes=1, topics=[asked])
        (topic,) = (await responded(selecting(context(17), request))).responses
        assert topic.partitions[0].preferred_read_replica == preferred
