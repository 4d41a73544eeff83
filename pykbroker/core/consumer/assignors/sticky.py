"""The sticky assignor (KIP-54): eager, with the previous assignment in the user data."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.core.consumer.assignors.assignor import Assignments, RebalanceProtocol, ReplicaRacks
from pykbroker.core.consumer.assignors.member import Subscriptions
from pykbroker.core.consumer.assignors.sticky_assignment import sticky_assignment
from pykbroker.core.consumer.assignors.sticky_user_data import decode_sticky_user_data, encode_sticky_user_data
from pykbroker.core.topic_partition import TopicPartition
from wire.sentinels import NO_GENERATION_ID


class StickyAssignor:
    """Kafka's StickyAssignor. Owned partitions come from the user data alone, since eager members revoke all first."""

    name = "sticky"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def __init__(self) -> None:
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._generation = NO_GENERATION_ID

    def user_data(self) -> bytes | None:
        return None if self._assigned is None else encode_sticky_user_data(self._assigned, self._generation)

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        self._assigned, self._generation = tuple(partitions), generation

    def assign(self, cluster: ReplicaRacks, subscriptions: Subscriptions) -> Assignments:
        claims = {member: decode_sticky_user_data(one.user_data) for member, one in subscriptions.items()}
        return sticky_assignment(cluster, subscriptions, claims)
