"""The consumer protocol embedded in the classic protocol: subscriptions and assignments by topic name."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.core.group.classic.member import Protocols
from pykbroker.core.group.consumer.assignment import Assignment
from pykbroker.core.metadata.image import TopicsImage
from wire.stored.consumer_group import ClassicMemberMetadata, ClassicProtocol
from wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from wire.stored.framing import decode_versioned, encode_versioned

VERSION_BYTES, VERSION_LAST = 2, 3
EmbeddedTopic = ConsumerProtocolAssignmentTopicPartition | ConsumerProtocolSubscriptionTopicPartition


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    """Return the record field of a consumer group member that uses the classic protocol."""
    return ClassicMemberMetadata(session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in protocols])


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription. Raise DecodeError if it is malformed."""
    return decode_versioned(ConsumerProtocolSubscription, data, newer=True)


def read_assignment(data: bytes, topics: TopicsImage) -> tuple[Assignment, bytes]:
    """Decode a member's assignment and its assignor's user data. Raise DecodeError if it is malformed."""
    message = decode_versioned(ConsumerProtocolAssignment, data, newer=True)
    return owned(message.assigned_partitions, topics), bytes(message.user_data or b"")


def owned(listed: Iterable[EmbeddedTopic], topics: TopicsImage) -> Assignment:
    """Return the listed partitions by topic id. Partitions that do not exist are left out."""
    found: dict[bytes, set[int]] = {}
    for one in listed:
        topic = topics.by_name.get(one.topic)
        if topic is not None:
            found.setdefault(topic.id, set()).update(index for index in one.partitions if index in topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items() if partitions}


def assignment(given: Assignment, topics: TopicsImage, subscription: bytes) -> bytes:
    """Encode a member's assignment in the version of its subscription. Deleted topics are left out."""
    return encode_versioned(
        ConsumerProtocolAssignment(
            [
                ConsumerProtocolAssignmentTopicPartition(topics.by_id[topic_id].name, sorted(partitions))
                for topic_id, partitions in given.items()
                if topic_id in topics.by_id
            ]
        ),
        min(max(int.from_bytes(subscription[:VERSION_BYTES], "big", signed=True), 0), VERSION_LAST),
    )
