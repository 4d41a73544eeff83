"""The topics that the members of a classic consumer group subscribe to, read from their metadata."""

from __future__ import annotations

from collections.abc import Iterable

from wire.errors import DecodeError
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import decode_versioned


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all subscribed topics, or None if a subscription is not in the format of Kafka's consumer protocol."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(decode_versioned(ConsumerProtocolSubscription, subscription, newer=True).topics)
    except DecodeError:
        return None
    return frozenset(topics)
