"""A topic that loses records: an operator elects a leader uncleanly, and the old leader truncates its log (KIP-106)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from pykbroker.core.metadata.image import PartitionImage
from pykbroker.sim.client import LOST, SimConnection
from pykbroker.sim.cluster.brief_topic import PRODUCE_BY_ID, require
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import holds
from pykbroker.sim.cluster.plan import CLIENT_PORT, CONTROLLER_ID, host_of
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.cluster.stalls import stall
from pykbroker.sim.history import Place
from pykbroker.sim.network import Network
from pykbroker.sim.producer import TIMEOUT_MS
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import BatchBuilder
from wire.sentinels import NO_LEADER

TOPIC, OPERATOR = "unclean", "operator"
PLACE: Place = (TOPIC, 0)
ACKS_LEADER = 1
UNCLEAN = 1
"""The election type."""
ASSIGNED = -1
"""The number of partitions and replicas of a topic that is created with an assignment."""
STALL_S, STALLED_AGAIN_S = 1.0, 0.2
"""The duration of a stall, and the time until it is extended, in seconds."""
ATTEMPTS_MAX, ANSWER_S_MAX = 5, 1.0
"""The number of attempts to ask a broker, and the time in seconds that each of them takes."""
LOOK_S, CHANGE_S_MAX = 0.01, 5.0
"""The time between two looks at the metadata, and the longest time to wait for a change of it, in seconds."""


class UncleanTopic:
    """The topic. Its leader acknowledges records alone, and the controller's broker is the last of its replicas."""

    def __init__(self, stage: ClusterStage, network: Network, cluster: SimCluster) -> None:
        self._stage, self._network, self._cluster = stage, network, cluster
        self._dialer = stage.dialer(OPERATOR)

    async def elect(self) -> None:
        """Cut a leader that is alone in the ISR off from the controller, and elect another one uncleanly."""
        await self._ask(self._create)
        placed = self._placed()
        if placed is None or placed.leader not in self._cluster.node_ids[1:]:
            return
        leader = placed.leader
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stall, leader)
            await trio.sleep(2 * STALLED_AGAIN_S)
            await self._ask(self._write)
            if await self._becomes(lambda now: now.isr == (leader,)):
                await self._replace(leader)
            nursery.cancel_scope.cancel()

    async def _replace(self, leader: int) -> None:
        links = [(host_of(leader), host_of(CONTROLLER_ID)), (host_of(CONTROLLER_ID), host_of(leader))]
        for link in links:
            self._network.cut(*link)
        if await self._becomes(lambda now: now.leader == NO_LEADER):
            await self._ask(self._elect)
        self._network.heal(*links)

    async def _stall(self, leader: int) -> None:
        """Stall the answers of the leader to its followers until cancelled."""
        while True:
            for other in self._cluster.node_ids:
                stall(self._network, host_of(leader), CLIENT_PORT, host_of(other), STALL_S)
            await trio.sleep(STALLED_AGAIN_S)

    def _placed(self) -> PartitionImage | None:
        """Return the partition in the newest image, or None if it does not exist."""
        image = self._cluster.image()
        topic = None if image is None else image.topics.by_name.get(TOPIC)
        return None if topic is None else topic.partitions.get(PLACE[1])

    async def _becomes(self, condition: Callable[[PartitionImage], bool]) -> bool:
        """Wait until the metadata of the partition fulfils a condition. Return whether it does."""
        return await holds(lambda: (placed := self._placed()) is not None and condition(placed), CHANGE_S_MAX, LOOK_S)

    async def _ask(self, request: Callable[[SimConnection], Awaitable[None]]) -> None:
        """Ask brokers until one has carried out a request. One that is cut off does not answer."""
        for _ in range(ATTEMPTS_MAX):
            with suppress(*LOST), trio.move_on_after(ANSWER_S_MAX):
                async with self._dialer.connected() as connection:
                    await request(connection)
                return

    async def _create(self, connection: SimConnection) -> None:
        replicas = [*self._cluster.node_ids[1:], self._cluster.node_ids[0]]
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=ASSIGNED,
            replication_factor=ASSIGNED,
            assignments=[CreatableReplicaAssignment(PLACE[1], replicas)],
            configs=[CreatableTopicConfig("min.insync.replicas", "1")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        answer = await connection.ask(request, connection.any_version(ApiKey.CREATE_TOPICS))
        require(answer.topics[0].error_code, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def _write(self, connection: SimConnection) -> None:
        builder = BatchBuilder()
        builder.append(None, TOPIC.encode(), (), self._stage.wall_ms())
        await connection.describe([TOPIC])
        part = PartitionProduceData(PLACE[1], builder.build())
        data = TopicProduceData(TOPIC, connection.topic_id(TOPIC), [part])
        request = ProduceRequest(acks=ACKS_LEADER, timeout_ms=TIMEOUT_MS, topic_data=[data])
        answer = await connection.ask(request, connection.any_version(ApiKey.PRODUCE, first=PRODUCE_BY_ID))
        require(answer.responses[0].partition_responses[0].error_code)

    async def _elect(self, connection: SimConnection) -> None:
        request = ElectLeadersRequest(UNCLEAN, [TopicPartitions(TOPIC, [PLACE[1]])])
        await connection.ask(request, connection.any_version(ApiKey.ELECT_LEADERS, first=1))
