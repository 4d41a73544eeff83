"""A program that measures the cost of a record to one of many followed partitions, of three brokers in one process.

It prints one line of JSON. CPU time is counted, not elapsed time, so that other processes do not matter. The directory
should be in memory (tmpfs).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import trio

from pykbroker import broker
from pykbroker.cli.start.process import settle_garbage_collector
from pykbroker.client.backoff import Backoff
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.settings import Serving
from pykbroker.world.system import system_world
from pykbroker.world.system_net import SystemNet
from tools.bench.partition_steps import CONFIGS, LOOK_S, NODES, PARTITIONS_OF_TOPIC, create_topic
from tools.bench.watched_node import HOST, are_in_sync, settings_of
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import BatchBuilder

OPEN_FILES_MAX = 1 << 20
WARM_UP, RECORDS = 100, 500
WINDOWS = 9
"""The number of measurements of the cost of a record. Their median is not disturbed by other processes for a while."""


class Node:
    """A broker in this process."""

    def __init__(self, node_id: int, directory: Path, controller: str) -> None:
        self.node_id, self._controller = node_id, controller
        self._directory = str(directory / f"node{node_id}")
        Path(self._directory).mkdir()
        self.serving: Serving

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the broker until it is cancelled."""
        settings = settings_of(self._directory, 0, self._controller, {**CONFIGS, "node.id": str(self.node_id)})
        world = msgspec.structs.replace(system_world((self._directory,), durable=False), open_files_max=OPEN_FILES_MAX)

        def note(serving: Serving) -> None:
            self.serving = serving
            task_status.started()

        await broker.serve(settings, note, world=world)


class Measurement:
    """Three running brokers with `count` followed partitions, and a connection to each."""

    def __init__(self, nursery: trio.Nursery, directory: Path, count: int) -> None:
        self._nursery, self._directory, self._count = nursery, directory, count
        self._net = SystemNet()
        self.nodes: dict[int, Node] = {}

    async def start(self) -> None:
        self._nursery.start_soon(self._net.run)
        for node_id in NODES:
            address = str(self.nodes[1].serving.controller_listeners["CONTROLLER"]) if self.nodes else ""
            self.nodes[node_id] = Node(node_id, self._directory, address)
            await self._nursery.start(self.nodes[node_id].run)

    def connect(self, node_id: int) -> ReconnectingConnection:
        return ReconnectingConnection(
            self._net, HOST, self.nodes[node_id].serving.port, "bench", Backoff(lambda a, b: a)
        )

    async def create(self, topic: str, count: int) -> None:
        """Create a topic, and wait until its ISRs are full."""
        connection = self.connect(1)
        await create_topic(connection, topic, count)
        connection.close()
        await until(partial(self.are_in_sync, len(NODES)))

    async def create_all(self) -> None:
        """Create topics until there are `count` partitions."""
        for number in range(0, self._count, PARTITIONS_OF_TOPIC):
            await self.create(f"t{number}", min(PARTITIONS_OF_TOPIC, self._count - number))

    def are_in_sync(self, size: int) -> bool:
        """Whether every partition has a leader and an ISR of this size."""
        return are_in_sync(self.nodes[1].serving.observer.parts.image(), size)

    async def record_us(self, topic: str) -> float:
        """Return the CPU time in us of a record with acks=all to a partition of a topic, on all brokers together."""
        leader = self.nodes[1].serving.observer.parts.image().topics.by_name[topic].partitions[0].leader
        connection = self.connect(leader)
        for _ in range(WARM_UP):
            await self._produce(connection, topic)
        used_us = []
        for _ in range(WINDOWS):
            begun = time.thread_time_ns()
            for _ in range(RECORDS):
                await self._produce(connection, topic)
            used_us.append((time.thread_time_ns() - begun) / 1000 / RECORDS)
        connection.close()
        return median(used_us)

    async def _produce(self, connection: ReconnectingConnection, topic: str) -> None:
        builder = BatchBuilder()
        builder.append(None, bytes(100), timestamp=0)
        part = PartitionProduceData(index=0, records=builder.build())
        data = [TopicProduceData(name=topic, partition_data=[part])]
        response = await connection.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data), 9)
        assert not response.responses[0].partition_responses[0].error_code, response


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    while not condition():  # noqa: ASYNC110 - the brokers have no event for it
        await trio.sleep(LOOK_S)


async def cost_us(count: int, directory: Path) -> float:
    """Return the CPU time of a record to one of `count` followed partitions."""
    async with trio.open_nursery() as nursery:
        one = Measurement(nursery, directory, count)
        await one.start()
        await one.create_all()
        settle_garbage_collector()
        await trio.sleep(1)
        found = await one.record_us("t0")
        nursery.cancel_scope.cancel()
    return found


def main() -> None:
    """Measure the cost of a record with `--partitions` partitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--dir")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.dir) as directory:
        used_us = trio.run(cost_us, options.partitions, Path(directory))
    print(json.dumps({"record_us": round(used_us, 1)}))


if __name__ == "__main__":
    main()
