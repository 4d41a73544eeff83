"""The topics that the members of a classic consumer group subscribe to, read from their metadata."""

from __future__ import annotations

from collections.abc import Iterable

from wire.compile import decoder
from wire.errors import DecodeError
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import I16_BYTES


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all subscribed topics, or None if a subscription is not in the format of Kafka's consumer protocol.

    As in Kafka, every subscription is read as one of version 0, whose fields all versions begin with. Some clients name
    a later version and leave out its fields.
    """
    read = decoder(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(read(subscription, I16_BYTES, len(subscription)).topics)
    except DecodeError:
        return None
    return frozenset(topics)
