"""The broker's metrics, as the console reads them. Reading them changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from pykbroker.broker.group_statistics import GroupsStatistics, groups_statistics, summarize
from pykbroker.broker.log_ends import ends_to_ask, log_ends
from pykbroker.broker.parts import Parts
from pykbroker.broker.statistics import BrokerHealth, BrokerStatistics, health, statistics
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.topic_statistics import TopicsStatistics, topics_statistics
from pykbroker.server.connections import Connections

T = TypeVar("T")


class BrokerObserver(msgspec.Struct, frozen=True):
    """A source of metrics. Work that grows with the number of topics runs in time slices of the event loop."""

    parts: Parts
    connections: Sequence[Connections]

    async def statistics(self) -> BrokerStatistics:
        """Return the current counters of the whole broker."""
        return await self.in_slices(statistics(self.parts, self.connections))

    async def health(self) -> BrokerHealth:
        return await self.in_slices(health(self.parts))

    async def topics(self, *, with_leaderless: bool) -> TopicsStatistics:
        """Return the statistics of at most `pykbroker.metrics.partitions.max` partitions."""
        steps = topics_statistics(self.parts.replicas, self._partitions_max, with_leaderless=with_leaderless)
        return await self.in_slices(steps)

    async def groups(self) -> GroupsStatistics:
        """Return the groups with at most `pykbroker.metrics.partitions.max` committed offsets."""
        if not self._partitions_max:
            return GroupsStatistics((), 0)
        parts = self.parts
        found = await summarize(parts.groups, parts.replicas, self._partitions_max)
        ends: Mapping[TopicPartition, int] = {}
        if parts.settings.has_other_nodes:
            ends = await log_ends(await self.in_slices(ends_to_ask(found, parts.replicas)), parts.peers_of_metrics)
        return await self.in_slices(groups_statistics(found, parts.replicas, ends))

    async def in_slices(self, steps: Steps[T]) -> T:
        """Run steps in time slices of the event loop, in turn with the broker's other long work."""
        found: T = await self.parts.turns.walk(steps)
        return found

    @property
    def _partitions_max(self) -> int:
        return self.parts.settings.config.pykbroker_metrics_partitions_max
