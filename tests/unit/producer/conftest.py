"""Fixtures of producers that send to a scripted cluster on a network in memory, with a virtual clock."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import pytest
import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.world.client_world import ClientWorld
from tests.unit.client.loopback import LoopbackNet
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

TIME_MS = 1_700_000_000_000


async def delayed(_node: Any, _request: Any) -> None:
    """Let a node answer a request after 0.2 s of virtual time."""
    with trio.move_on_after(0.2):
        await trio.sleep_forever()


def refuse(cluster: ScriptedCluster, *codes: ErrorCode, **fields: Any) -> None:
    """Let the next Produce requests be answered with these error codes, without writing anything."""
    left = list(codes)

    async def answer(_node: Any, request: Any) -> Any:
        if not left:
            return None
        code = left.pop(0)
        return ProduceResponse(
            [
                TopicProduceResponse(
                    topic.name,
                    topic.topic_id,
                    [PartitionProduceResponse(each.index, code, -1, **fields) for each in topic.partition_data],
                )
                for topic in request.topic_data
            ]
        )

    cluster.script(ApiKey.PRODUCE, answer)


class Producing:
    """A cluster of three nodes with the topic `topic`, and producers that send to it."""

    def __init__(self, net: LoopbackNet, cluster: ScriptedCluster) -> None:
        self.net, self.cluster, self.state = net, cluster, cluster.state
        self.state.add_topic("topic", 3)
        self.state.auto_creates = False
        self._started = trio.current_time()

    def elapsed(self) -> float:
        """Return the seconds of virtual time since the test started."""
        return trio.current_time() - self._started

    def producer(self, **settings: Any) -> AbstractAsyncContextManager[Producer]:
        """Return a producer, which `async with` opens."""
        given = {"bootstrap_servers": [f"{host}:{port}" for host, port in self.cluster.bootstrap], "linger_ms": 0}
        world = ClientWorld(self.net, lambda: TIME_MS, lambda: int(trio.current_time() * 1e9), Random(5))
        return Producer(world=world, **given | settings)

    def values(self, partition: int = 0, topic: str = "topic") -> list[bytes | None]:
        """Return the values in a partition."""
        return [record.value for record in self.state.log(TopicPartition(topic, partition)).records]

    def committed(self) -> list[bytes | None]:
        """Return the values in partition 0 that a consumer with read_committed gets."""
        return [record.value for record in self.state.log(TopicPartition("topic", 0)).committed_records]

    def all_values(self) -> list[bytes | None]:
        """Return the values in all partitions, sorted."""
        return sorted((value for index in range(3) for value in self.values(index)), key=repr)

    def move(self, partition: int, leader: int) -> None:
        """Elect a leader."""
        self.state.move_leader(TopicPartition("topic", partition), leader)


@pytest.fixture
async def producing(autojump_clock, nursery) -> Producing:
    """Return a running cluster."""
    net = LoopbackNet()
    cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
    cluster.start()
    return Producing(net, cluster)
