"""The assignment that sticky and cooperative-sticky share: balance first, then racks (KIP-881), then stickiness."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.consumer.assignors.assignor import Assignments, ReplicaRacks, subscribed_topics
from pykbroker.core.consumer.assignors.balancing import Balancing, Candidates, as_sets
from pykbroker.core.consumer.assignors.exchanges import MEMBERS_MAX, Exchanges
from pykbroker.core.consumer.assignors.member import Subscriptions
from pykbroker.core.consumer.assignors.ownership import Claim, owners
from pykbroker.core.consumer.assignors.racks import racks_matter
from pykbroker.core.topic_partition import TopicPartition


def sticky_assignment(cluster: ReplicaRacks, subscriptions: Subscriptions, claims: Mapping[str, Claim]) -> Assignments:
    """Return the assignment in which as many partitions as possible stay with the members that claim them."""
    candidates = subscribers(cluster, subscriptions)
    balancing = Balancing(subscriptions, owners(claims))
    matching = rack_candidates(cluster, subscriptions, candidates)
    balancing.keep(matching)
    if matching is not candidates:
        balancing.fill(matching)
        balancing.balance(matching)
    balancing.fill(candidates)
    balancing.balance(candidates)
    if len(subscriptions) <= MEMBERS_MAX and (matching is not candidates or len(set(candidates.values())) > 1):
        exchange(balancing, candidates, matching)
    return {member: sorted(partitions) for member, partitions in balancing.assigned.items()}


def exchange(
    balancing: Balancing, candidates: Mapping[TopicPartition, Candidates], matching: Mapping[TopicPartition, Candidates]
) -> None:
    """Improve an assignment until it is optimal: in its balance, then its matches of racks, then its stickiness."""
    near, owners = as_sets(matching), balancing.owners
    # A match of racks is never given up for stickiness: if all partitions lose their owners, that costs less than it.
    rack_cost = len(candidates) + 1

    def cost(partition: TopicPartition, member: str) -> int:
        return rack_cost * (member not in near[partition]) + (owners.get(partition) != member)

    Exchanges(balancing.assigned, candidates, cost, rack_cost**2).improve()


def subscribers(cluster: ReplicaRacks, subscriptions: Subscriptions) -> dict[TopicPartition, Candidates]:
    """Return the subscribed members of each partition's topic."""
    found: dict[TopicPartition, Candidates] = {}
    for topic in subscribed_topics(cluster, subscriptions):
        members = tuple(sorted(member for member in subscriptions if topic in subscriptions[member].topics))
        found.update((TopicPartition(topic, index), members) for index in range(len(cluster[topic])))
    return found


def rack_candidates(
    cluster: ReplicaRacks, subscriptions: Subscriptions, candidates: dict[TopicPartition, Candidates]
) -> dict[TopicPartition, Candidates]:
    """Return the candidates in whose rack a partition has a replica, or `candidates` itself if racks do not matter.

    A member without a rack matches every partition.
    """
    member_racks = {member: subscription.rack for member, subscription in subscriptions.items() if subscription.rack}
    replica_racks = {partition: cluster[partition.topic][partition.partition] for partition in candidates}
    if not racks_matter(set(member_racks.values()), set(replica_racks.values())):
        return candidates
    kinds = {(candidates[partition], racks) for partition, racks in replica_racks.items()}
    matching = {
        (members, racks): tuple(member for member in members if member_racks.get(member) in {None, *racks})
        for members, racks in kinds
    }
    return {partition: matching[candidates[partition], racks] for partition, racks in replica_racks.items()}
