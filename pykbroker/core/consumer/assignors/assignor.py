"""The interface of an assignor, and the view of the cluster that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from pykbroker.core.consumer.assignors.member import Subscriptions
from pykbroker.core.topic_partition import TopicPartition


class RebalanceProtocol(IntEnum):
    """Whether a member gives up all its partitions before a rebalance (EAGER), or only those that move (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


ReplicaRacks = Mapping[str, Sequence[frozenset[str]]]
"""The racks of each partition's replicas, by topic and partition index; an empty set if they are unknown."""
Assignments = dict[str, list[TopicPartition]]
"""The assigned partitions by member id. Every member of the group has an entry."""


class Assignor(Protocol):
    """An assignor of a member. Its state is the member's last assignment."""

    name: str
    protocols: frozenset[RebalanceProtocol]

    def user_data(self) -> bytes | None:
        """Return the user data for the member's next subscription."""

    def assign(self, cluster: ReplicaRacks, subscriptions: Subscriptions) -> Assignments:
        """Return the assignment of all members. Topics that the cluster does not have are skipped."""

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        """Record the assignment that this member received from the leader."""


def subscribed_topics(cluster: ReplicaRacks, subscriptions: Subscriptions) -> list[str]:
    """Return the topics that any member subscribes to and that have partitions, sorted."""
    topics = frozenset[str]().union(*(subscription.topics for subscription in subscriptions.values()))
    return sorted(topic for topic in topics if cluster.get(topic))
