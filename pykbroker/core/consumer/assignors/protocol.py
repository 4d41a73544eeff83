"""The consumer protocol: the bytes of subscriptions in JoinGroup and of assignments in SyncGroup."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from wire.stored.framing import decode_versioned, encode_versioned

NEWEST = 3
"""The newest version of ConsumerProtocolSubscription and of ConsumerProtocolAssignment."""


def encode_subscription(subscription: MemberSubscription, version: int = NEWEST) -> bytes:
    """Return the metadata of a member for JoinGroup; topics and owned partitions are sorted, as in Kafka."""
    owned = [
        ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=indexes)
        for topic, indexes in indexes_by_topic(sorted(subscription.owned)).items()
    ]
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=owned,
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return encode_versioned(message, version)


def decode_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """Return a member's subscription; raise DecodeError if it is malformed. Newer versions are read as version 3."""
    message = decode_versioned(ConsumerProtocolSubscription, data, newer=True)
    owned = tuple(TopicPartition(one.topic, index) for one in message.owned_partitions for index in one.partitions)
    user_data = None if message.user_data is None else bytes(message.user_data)
    return MemberSubscription(
        frozenset(message.topics), user_data, owned, message.generation_id, message.rack_id, instance_id
    )


def encode_assignment(partitions: Iterable[TopicPartition], version: int = NEWEST) -> bytes:
    """Return the assignment of a member for SyncGroup."""
    assigned = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
        for topic, indexes in indexes_by_topic(partitions).items()
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Return the assigned partitions; raise DecodeError if the assignment is malformed."""
    message = decode_versioned(ConsumerProtocolAssignment, data, newer=True)
    return [TopicPartition(one.topic, index) for one in message.assigned_partitions for index in one.partitions]
