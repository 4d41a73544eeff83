"""The changes that an operator makes to a cluster under load: reassignments, elections, deleted topics and records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import trio

from pykbroker.sim.client import SimConnection
from pykbroker.sim.cluster.brief_topic import ANSWER_S_MAX, BriefTopic
from pykbroker.sim.cluster.deletions import Deletions
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.history import Place
from wire.api import ApiKey
from wire.declare import Request
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED = 0
CANCELLED = 0.2
"""The chance that a reassignment is a cancellation."""


class MetadataChanges:
    """The changes of `places` and of the topic `brief`, and the deletions of records.

    `replicas_min` is the smallest replication factor of a reassignment.
    """

    def __init__(
        self,
        stage: ClusterStage,
        cluster: SimCluster,
        places: list[Place],
        brief: BriefTopic,
        deletions: Deletions,
        replicas_min: int,
        dice: Random,
    ) -> None:
        self._stage, self._cluster, self._places = stage, cluster, places
        self._brief, self._deletions, self._replicas_min, self._dice = brief, deletions, replicas_min, dice

    async def strike(self, kind: str) -> None:
        """Make one change, without waiting until it is complete."""
        own: Callable[[], Awaitable[None]] | None = getattr(self, kind, None)
        await (own or getattr(self._deletions, kind))()

    async def recreate_topic(self) -> None:
        """Delete a topic and create it again under the same name."""
        await self._brief.recreate()

    async def reassign(self) -> None:
        """Reassign a partition to random brokers in random order, or cancel its reassignment."""
        dice, (topic, index) = self._dice, self._dice.choice(self._places)
        count = dice.randrange(self._replicas_min, min(3, len(self._cluster.nodes)) + 1)
        await self.assign(
            (topic, index), None if dice.random() < CANCELLED else dice.sample(self._cluster.node_ids, count)
        )

    async def assign(self, place: Place, replicas: list[int] | None) -> None:
        """Reassign a partition to these brokers, or cancel its reassignment."""
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(place[0], [ReassignablePartition(place[1], replicas)])]
        )
        await self._ask(request, ApiKey.ALTER_PARTITION_REASSIGNMENTS)

    async def elect_leaders(self) -> None:
        """Elect the preferred leaders of all partitions."""
        topics = [TopicPartitions(topic, [index]) for topic, index in self._places]
        await self._ask(ElectLeadersRequest(PREFERRED, topics), ApiKey.ELECT_LEADERS)

    async def _ask(self, request: Request[Any], key: ApiKey) -> None:
        async def ask(connection: SimConnection) -> None:
            await connection.ask(request, connection.any_version(key, first=1))

        with trio.move_on_after(ANSWER_S_MAX):
            await self._stage.until_answered(ask)
