"""The cooperative-sticky assignor (KIP-429): sticky, but a partition that moves is unassigned for one rebalance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack, unpack_from

from pykbroker.core.consumer.assignors.assignor import Assignments, RebalanceProtocol, ReplicaRacks
from pykbroker.core.consumer.assignors.member import MemberSubscription, Subscriptions
from pykbroker.core.consumer.assignors.ownership import Claim, owners
from pykbroker.core.consumer.assignors.sticky_assignment import sticky_assignment
from pykbroker.core.topic_partition import TopicPartition
from wire.sentinels import NO_GENERATION_ID


class CooperativeStickyAssignor:
    """Kafka's CooperativeStickyAssignor. Its user data is the generation of the last assignment."""

    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._generation = NO_GENERATION_ID

    def user_data(self) -> bytes | None:
        return pack(">i", self._generation)

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(self, cluster: ReplicaRacks, subscriptions: Subscriptions) -> Assignments:
        claims = {member: claim_of(subscription) for member, subscription in subscriptions.items()}
        return without_transfers(sticky_assignment(cluster, subscriptions, claims), claims)


def claim_of(subscription: MemberSubscription) -> Claim:
    """Return the owned partitions with the generation of the subscription, or of its user data before version 2."""
    generation = subscription.generation
    if generation < 0 and subscription.user_data is not None and len(subscription.user_data) >= 4:
        (generation,) = unpack_from(">i", subscription.user_data)
    return Claim(subscription.owned, generation)


def without_transfers(assignments: Assignments, claims: Mapping[str, Claim]) -> Assignments:
    """Return the assignments without the partitions that another member must revoke first.

    A member keeps what it owned in the newest generation. It also gets partitions that no other member claims, not even
    in an older generation.
    """
    previous = owners(claims)
    claimants: dict[TopicPartition, set[str]] = {}
    for member, claim in claims.items():
        for partition in claim.partitions:
            claimants.setdefault(partition, set()).add(member)

    def may_have(member: str, partition: TopicPartition) -> bool:
        return previous.get(partition) == member or claimants.get(partition, set()) <= {member}

    return {member: [one for one in own if may_have(member, one)] for member, own in assignments.items()}
