"""The roundrobin assignor: all partitions of all topics, dealt to the members in turn."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

from pykbroker.core.consumer.assignors.assignor import Assignments, RebalanceProtocol, ReplicaRacks, subscribed_topics
from pykbroker.core.consumer.assignors.member import Subscriptions, sorted_members
from pykbroker.core.topic_partition import TopicPartition


class RoundRobinAssignor:
    """Kafka's RoundRobinAssignor: a member that does not subscribe to a partition's topic is skipped."""

    name = "roundrobin"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(self) -> bytes | None:
        return None

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        pass

    def assign(self, cluster: ReplicaRacks, subscriptions: Subscriptions) -> Assignments:
        assignments: Assignments = {member: [] for member in subscriptions}
        turns = cycle(sorted_members(subscriptions))
        for topic in subscribed_topics(cluster, subscriptions):
            for index in range(len(cluster[topic])):
                member = next(member for member in turns if topic in subscriptions[member].topics)
                assignments[member].append(TopicPartition(topic, index))
        return assignments
