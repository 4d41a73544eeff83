"""Which topics the members of a group of consumers subscribe to, as far as their bytes say so."""

from __future__ import annotations

from collections.abc import Iterable

from wire.errors import DecodeError
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import decode_versioned


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all; None where one is not understood, as of clients that use the bytes in their own way."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(decode_versioned(ConsumerProtocolSubscription, subscription, newer=True).topics)
    except DecodeError:
        return None
    return frozenset(topics)
