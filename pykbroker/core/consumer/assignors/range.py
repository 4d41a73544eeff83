"""The range assignor: each topic's partitions in contiguous ranges, one for each subscribed member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pykbroker.core.consumer.assignors.assignor import Assignments, RebalanceProtocol, ReplicaRacks, subscribed_topics
from pykbroker.core.consumer.assignors.member import Subscriptions, sorted_members
from pykbroker.core.consumer.assignors.racks import racks_matter
from pykbroker.core.topic_partition import TopicPartition


class RangeAssignor:
    """Kafka's RangeAssignor. Topics with equal members and partition counts are co-partitioned, racks or not."""

    name = "range"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(self) -> bytes | None:
        return None

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        pass

    def assign(self, cluster: ReplicaRacks, subscriptions: Subscriptions) -> Assignments:
        members = sorted_members(subscriptions)
        assignments: Assignments = {member: [] for member in subscriptions}
        topics = [
            TopicRanges(
                topic,
                cluster[topic],
                {
                    member: subscriptions[member].rack or None
                    for member in members
                    if topic in subscriptions[member].topics
                },
            )
            for topic in subscribed_topics(cluster, subscriptions)
        ]
        if any(topic.racks_matter for topic in topics):
            match_racks(topics)
        for topic in topics:
            topic.assign_ranges(matching=False)
            for member, indexes in topic.assigned.items():
                assignments[member] += [TopicPartition(topic.name, index) for index in sorted(indexes)]
        return assignments


class TopicRanges:
    """The partitions of a topic that are assigned, and the number that each member may still have."""

    def __init__(self, name: str, replica_racks: Iterable[frozenset[str]], racks: dict[str, str | None]) -> None:
        self.name, self.replica_racks, self.racks = name, list(replica_racks), racks
        self.assigned: dict[str, list[int]] = {member: [] for member in racks}
        self.unassigned = dict.fromkeys(range(len(self.replica_racks)))
        self.quota, self.extra = divmod(len(self.replica_racks), len(racks))
        known = {rack for rack in racks.values() if rack is not None}
        self.racks_matter = racks_matter(known, self.replica_racks)

    def matches(self, member: str, index: int) -> bool:
        # Kafka reads no replica racks if no member of the topic has a rack, but then every member matches anyway.
        rack = self.racks[member]
        return rack is None or rack in self.replica_racks[index]

    def room(self, member: str) -> int:
        return max(0, self.quota + (self.extra > 0) - len(self.assigned[member]))

    def take(self, member: str, indexes: list[int]) -> None:
        self.assigned[member] += indexes
        if len(self.assigned[member]) > self.quota:
            self.extra -= 1
        for index in indexes:
            del self.unassigned[index]

    def assign_ranges(self, *, matching: bool) -> None:
        """Give each member the next unassigned partitions, or only those with a replica in its rack."""
        for member in self.racks:
            room = self.room(member)
            found: list[int] = []
            for index in self.unassigned:
                if len(found) == room:
                    break
                if not matching or self.matches(member, index):
                    found.append(index)
            if found:
                self.take(member, found)


def match_racks(topics: list[TopicRanges]) -> None:
    """Assign the partitions whose replicas are in a member's rack; co-partitioned topics are assigned together."""
    alike = defaultdict[tuple[tuple[tuple[str, str | None], ...], int], list[TopicRanges]](list)
    for topic in topics:
        # Kafka counts the partitions whose racks it read: none if no member of the topic has a rack.
        known = any(topic.racks.values())
        alike[tuple(topic.racks.items()), len(topic.replica_racks) if known else 0].append(topic)
    for group in alike.values():
        if len(group) > 1:
            match_together(group)
        elif group[0].racks_matter:
            group[0].assign_ranges(matching=True)


def match_together(topics: list[TopicRanges]) -> None:
    """Assign partition n of all `topics` to the first member in whose rack all of them have a replica."""
    if not any(topics[0].racks.values()):
        return
    members = list(topics[0].racks)
    for index in range(len(topics[0].replica_racks)):
        for member in members:
            if all(topic.room(member) and topic.matches(member, index) for topic in topics):
                break
        else:
            continue
        for topic in topics:
            topic.take(member, [index])
        if not any(topic.room(member) for topic in topics):
            members.remove(member)
