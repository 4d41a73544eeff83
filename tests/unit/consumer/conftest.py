"""Fixtures of consumers of a scripted cluster on a network in memory, with a virtual clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import pytest
import trio

from pykbroker.consumer import Consumer
from pykbroker.core.log.producers import Marker
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.world.client_world import ClientWorld
from tests.unit.client.loopback import LoopbackNet
from wire.api import ApiKey
from wire.records.builder import BatchBuilder

TIME_MS = 1_700_000_000_000
GROUP = "group"
PARTITIONS = 3


class Consuming:
    """A cluster of three nodes with the topic `topic`, and consumers of it. Node 1 coordinates the groups."""

    def __init__(self, net: LoopbackNet, cluster: ScriptedCluster) -> None:
        self.net, self.cluster, self.state = net, cluster, cluster.state
        self.state.auto_creates = False
        self.state.add_topic("topic", PARTITIONS)
        self.partitions = [TopicPartition("topic", index) for index in range(PARTITIONS)]
        self._started, self._dice = trio.current_time(), Random(5)

    def elapsed(self) -> float:
        """Return the seconds of virtual time since the test started."""
        return trio.current_time() - self._started

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """Return a consumer that reads from the start of the logs, which `async with` opens."""
        given: dict[str, Any] = {
            "bootstrap_servers": [f"{host}:{port}" for host, port in self.cluster.bootstrap],
            "auto_offset_reset": "earliest",
        }
        clocks = (lambda: TIME_MS + int(self.elapsed() * 1000), lambda: int(trio.current_time() * 1e9))
        return Consumer(*topics, world=ClientWorld(self.net, *clocks, Random(self._dice.random())), **given | settings)

    def member(self, *topics: str, **settings: Any) -> Consumer:
        """Return a consumer in the group `group`, which commits only when it is told to."""
        given = {"group_id": GROUP, "enable_auto_commit": False}
        return self.consumer(*(topics or ("topic",)), **given | settings)

    def append(self, *values: bytes, partition: int = 0, producer_id: int = -1, first_ms: int = TIME_MS) -> int:
        """Append one batch to a partition, with a ms between the timestamps of its records. Return its offset."""
        idempotent = producer_id >= 0
        builder = BatchBuilder(
            producer_id=producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=0 if idempotent else -1,
            transactional=idempotent,
        )
        for number, value in enumerate(values):
            builder.append(None, value, (), first_ms + number)
        place = self.partitions[partition]
        log, verification = self.state.log(place), None
        if idempotent:
            verification = log.producers.verifications.begin(producer_id, 0, 0, 0, from_zero=True)
        return log.append(builder.build(), self.state.leader_epoch(place), verification)

    def end_transaction(self, producer_id: int, *, commit: bool, partition: int = 0) -> None:
        """Append the marker of a transaction."""
        marker = Marker(producer_id, 0, commit, 0)
        self.state.log(self.partitions[partition]).append_marker(marker, 0, TIME_MS)

    def committed(self, partition: int = 0, group: str = GROUP) -> Awaitable[int | None]:
        """Return the committed offset of a partition, as another client sees it."""
        return self._committed(self.partitions[partition], group)

    async def _committed(self, partition: TopicPartition, group: str) -> int | None:
        async with self.consumer(group_id=group) as observer:
            found = (await observer.committed([partition]))[partition]
        return None if found is None else found.offset

    def answer_with(self, key: ApiKey, response: Callable[[Any], Any], times: int | None = None) -> None:
        """Let the next requests of an API be answered with what a function makes of them."""

        async def answer(_node: Any, request: Any) -> Any:
            return response(request)

        self.cluster.script(key, answer, times)

    def change_fetched(self, change: Callable[[Any], None], times: int) -> None:
        """Change partitions with records in the next responses to Fetch."""
        left = [times]

        async def changed(node: Any, header: Any, request: Any) -> Any:
            if header.key != ApiKey.FETCH or not left[0]:
                return None
            response = await node.handle(header, request)
            filled = [each for topic in response.responses for each in topic.partitions if each.records]
            for data in filled:
                change(data)
            left[0] -= bool(filled)
            return response

        for node in self.cluster.nodes.values():
            node.scripts.append(changed)


async def values_of(consumer: Consumer, count: int) -> list[bytes | None]:
    """Return the values of the next records, in the order in which the polls return them."""
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll()]
    return found


def offsets(committed: Mapping[TopicPartition, Any]) -> dict[int, int | None]:
    """Return committed offsets by the index of the partition."""
    return {key.partition: None if each is None else each.offset for key, each in committed.items()}


@pytest.fixture
async def consuming(autojump_clock, nursery) -> Consuming:
    """Return a running cluster."""
    net = LoopbackNet()
    cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
    cluster.start()
    return Consuming(net, cluster)
