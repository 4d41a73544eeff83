"""A member as the leader of a classic group sees it: the content of its consumer protocol subscription (KIP-429)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykbroker.core.topic_partition import TopicPartition
from wire.sentinels import NO_GENERATION_ID


@dataclass(frozen=True)
class MemberSubscription:
    """The topics of a member, the partitions that it owns, and the generation in which it owned them."""

    topics: frozenset[str]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION_ID
    rack: str | None = None
    instance_id: str | None = None


Subscriptions = Mapping[str, MemberSubscription]
"""The subscriptions of a group by member id."""


def sorted_members(subscriptions: Subscriptions) -> list[str]:
    """Return the member ids in Kafka's order: static members by instance id, then dynamic members by member id."""

    def order(member: str) -> tuple[bool, bytes]:
        instance = subscriptions[member].instance_id
        return instance is None, java_order(member if instance is None else instance)

    return sorted(sorted(subscriptions), key=order)


def java_order(text: str) -> bytes:
    """Return a key that sorts text by UTF-16 code units, as Java's String.compareTo does."""
    return text.encode("utf-16-be", "surrogatepass")
