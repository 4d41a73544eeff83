"""The client's connections, metadata and coordinators against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from pykbroker.client.admin.admin import Admin
from pykbroker.client.coordinators import Coordinators
from pykbroker.client.metadata import ClusterMetadata, MetadataSettings
from pykbroker.client.node import NodeSettings
from pykbroker.client.nodes import Nodes
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.system_net import SystemNet
from tests.interop.kafka_cluster import KafkaCluster
from wire.messages.find_coordinator import CoordinatorType

pytestmark = pytest.mark.timeout(180)
RECOVERY_S_MAX = 60


class Client:
    """A running client: connections, metadata and coordinators."""

    def __init__(self, net: SystemNet, bootstrap: tuple[tuple[str, int], ...]) -> None:
        uniform = random.Random(1).uniform
        self.nodes = Nodes(net, uniform, NodeSettings(client_id="interop", request_timeout_ms=5000))
        self.metadata = ClusterMetadata(self.nodes, uniform, MetadataSettings(bootstrap))
        self.coordinators = Coordinators(self.nodes, uniform)

    async def leaders(self, topic: str, count: int, without: int = 0) -> list[int]:
        """Wait until `count` partitions of a topic have a leader other than the node `without`, and return these."""
        self.metadata.use(topic)
        with trio.fail_after(RECOVERY_S_MAX):
            while True:
                version, cluster = self.metadata.version, self.metadata.cluster
                leaders = [cluster.leader(TopicPartition(topic, index)) for index in range(count)]
                found = [leader for leader in leaders if leader is not None and leader != without]
                if len(found) == count:
                    return found
                self.metadata.request_update()
                await self.metadata.wait_newer(version)

    async def admin(self) -> Admin:
        node_id = self.nodes.least_loaded()
        assert node_id is not None
        return Admin(await self.nodes.connection(node_id))


@asynccontextmanager
async def running(bootstrap: tuple[tuple[str, int], ...]) -> AsyncIterator[Client]:
    net = SystemNet()
    client = Client(net, bootstrap)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.run)
        await nursery.start(client.nodes.run)
        nursery.start_soon(client.metadata.run)
        with trio.fail_after(RECOVERY_S_MAX):
            await client.metadata.wait_newer(0)
        yield client
        nursery.cancel_scope.cancel()


@pytest.fixture(params=["pykbroker", "kafka"])
def addresses(request: pytest.FixtureRequest) -> tuple[tuple[str, int], ...]:
    if request.param == "kafka":
        return request.getfixturevalue("kafka_nodes").bootstrap
    host, _, port = request.getfixturevalue("shared_broker").address.rpartition(":")
    return ((host, int(port)),)


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


async def test_metadata_describes_topics_that_exist_and_topics_that_the_broker_creates(
    addresses: tuple[tuple[str, int], ...],
) -> None:
    existing, automatic = unique("existing"), unique("automatic")
    async with running(addresses) as client:
        assert len(client.metadata.cluster.brokers) == len(addresses)
        await (await client.admin()).create_topic(existing, 6, len(addresses), {})
        leaders = await client.leaders(existing, 6)
        assert set(leaders) == client.metadata.cluster.brokers.keys()
        await client.leaders(automatic, 1)
        topic = client.metadata.cluster.topics[existing]
        assert client.metadata.cluster.topic_names[topic.topic_id] == existing
        assert client.nodes.features["transaction.version"] == 2


async def test_metadata_by_topic_id_and_by_pattern(addresses: tuple[tuple[str, int], ...]) -> None:
    by_id, matched = unique("id"), unique("matched")
    async with running(addresses) as client:
        await client.leaders(by_id, 1)
        topic_id = client.metadata.cluster.topics[by_id].topic_id
    async with running(addresses) as client:
        await (await client.admin()).create_topic(matched, 1, 1, {})
        client.metadata.use_matching(lambda name, internal: name == matched)
        client.metadata.use_ids([topic_id])
        with trio.fail_after(RECOVERY_S_MAX):
            while client.metadata.cluster.topics.keys() != {by_id, matched}:
                await client.metadata.wait_newer(client.metadata.version)


async def test_a_recreated_topic_is_noticed_by_its_id(addresses: tuple[tuple[str, int], ...]) -> None:
    name = unique("recreated")
    async with running(addresses) as client:
        await (await client.admin()).create_topic(name, 1, 1, {})
        await client.leaders(name, 1)
        old = client.metadata.cluster.topics[name].topic_id
        await (await client.admin()).delete_topic(name)
        with trio.fail_after(RECOVERY_S_MAX):
            while client.metadata.cluster.topics[name].topic_id == old or client.metadata.cluster.topics[name].error:
                client.metadata.request_update()
                await client.metadata.wait_newer(client.metadata.version)
        await client.leaders(name, 1)


async def test_coordinators_of_groups_and_transactions_are_found(addresses: tuple[tuple[str, int], ...]) -> None:
    async with running(addresses) as client:
        with trio.fail_after(RECOVERY_S_MAX):
            groups = await client.coordinators.find_all(CoordinatorType.GROUP, [f"group{each}" for each in range(9)])
            transaction = await client.coordinators.find(CoordinatorType.TRANSACTION, "transaction")
        assert set(groups.values()) <= client.metadata.cluster.brokers.keys()
        assert transaction in client.metadata.cluster.brokers


async def test_leaders_and_coordinators_move_when_a_node_of_kafka_is_killed(kafka_nodes: KafkaCluster) -> None:
    topic = unique("moving")
    async with running(kafka_nodes.bootstrap) as client:
        await (await client.admin()).create_topic(topic, 3, 3, {})
        leaders = await client.leaders(topic, 3)
        with trio.fail_after(RECOVERY_S_MAX):
            coordinator = await client.coordinators.find(CoordinatorType.GROUP, "moving")
        await client.nodes.connection(coordinator)
        assert coordinator in leaders
        epochs = [client.metadata.cluster.epoch(TopicPartition(topic, index)) for index in range(3)]
        kafka_nodes.kill(coordinator)
        moved = await client.leaders(topic, 3, without=coordinator)
        for index, (old, new) in enumerate(zip(leaders, moved, strict=True)):
            newer = client.metadata.cluster.epoch(TopicPartition(topic, index)) > epochs[index]
            assert newer or old == new
        with trio.fail_after(RECOVERY_S_MAX):
            while (found := await client.coordinators.find(CoordinatorType.GROUP, "moving")) == coordinator:
                client.coordinators.forget(CoordinatorType.GROUP, "moving")
                await client.metadata.wait_newer(client.metadata.request_update())
        assert found != coordinator
    kafka_nodes.start(coordinator)
    kafka_nodes.wait_serving(coordinator)
