"""Tests of polls against a scripted cluster on a network in memory, with a virtual clock."""

from __future__ import annotations

from random import Random

import pytest
import trio

from pykbroker.consumer import Consumer
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.world.client_world import ClientWorld
from tests.unit.client.loopback import LoopbackNet

PATIENCE_S = 10


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_poll_fetches_on_after_responses_without_records(autojump_clock, nursery, partitions: int) -> None:
    net = LoopbackNet()
    cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
    cluster.start()
    cluster.state.add_topic("topic", partitions)
    world = ClientWorld(net, lambda: 0, lambda: int(trio.current_time() * 1e9), Random(5))
    servers = [f"{host}:{port}" for host, port in cluster.bootstrap]
    async with Consumer(bootstrap_servers=servers, world=world, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("topic", index) for index in range(partitions)])
        assert await consumer.poll(PATIENCE_S) == []
        async with Producer(bootstrap_servers=servers, world=world) as producer:
            await (await producer.send("topic", b"value", partition=0))
        (record,) = await consumer.poll(PATIENCE_S)
        assert record.value == b"value"
