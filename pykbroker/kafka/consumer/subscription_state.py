"""The base classes of rebalance listeners, where kafka-python has them."""

from __future__ import annotations

from typing import Any

from pykbroker.consumer.listener import RebalanceListener
from pykbroker.core.consumer.membership.steps import RebalanceEvent
from pykbroker.core.topic_partition import TopicPartition

ConsumerRebalanceListener = RebalanceListener


class AsyncConsumerRebalanceListener:
    """A listener with async methods. They run in an event loop of asyncio of their own, in the thread that polls."""

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Note that the group takes partitions away."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note that the group gives partitions."""


def check_listener(listener: Any) -> None:
    """Raise TypeError for an object that has no method of a listener. kafka-python also requires its base class."""
    if listener is not None and not any(callable(getattr(listener, event.value, None)) for event in RebalanceEvent):
        names = " or ".join(event.value for event in RebalanceEvent)
        raise TypeError(
            f"listener must be a ConsumerRebalanceListener or AsyncConsumerRebalanceListener, or have a method {names}"
        )
