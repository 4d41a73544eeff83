"""The subscription and the assignment of a classic member, as JoinGroup and SyncGroup carry them."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.core.topic_partition import TopicPartition
from wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from wire.stored.framing import decode_versioned, encode_versioned

VERSION = 3


def encode_subscription(
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation: int = -1,
    rack: str | None = None,
    user_data: bytes | None = None,
) -> bytes:
    """Return a member's subscription with its owned partitions."""
    parts = [ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=n) for name, n in _by_topic(owned)]
    message = ConsumerProtocolSubscription(
        topics=sorted(topics), user_data=user_data, owned_partitions=parts, generation_id=generation, rack_id=rack
    )
    return encode_versioned(message, VERSION)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return a member's subscription. Raise DecodeError if it is damaged."""
    return decode_versioned(ConsumerProtocolSubscription, data, newer=True)


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Return a member's assignment."""
    parts = [ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=n) for name, n in _by_topic(partitions)]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data), VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment. Raise DecodeError if it is damaged."""
    message = decode_versioned(ConsumerProtocolAssignment, data, newer=True)
    return [TopicPartition(each.topic, index) for each in message.assigned_partitions for index in each.partitions]


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return list(topics.items())
