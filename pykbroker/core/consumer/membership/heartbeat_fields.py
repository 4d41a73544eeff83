"""The fields of a ConsumerGroupHeartbeat request: all when a member joins, and later only those that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykbroker.core.consumer.membership.steps import MemberSettings
from pykbroker.core.consumer.subscription import ConsumerSubscription
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

TopicIdPartitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""


class HeartbeatFields:
    """The fields that the coordinator knows. After an error or a lost response, all are sent again."""

    def __init__(self, settings: MemberSettings, subscription: ConsumerSubscription) -> None:
        self._settings, self._subscription = settings, subscription
        self._sent: dict[str, Any] = {}

    def forget(self) -> None:
        """Send all fields with the next request."""
        self._sent = {}

    def request(
        self, member_id: str, epoch: int, owned: tuple[int, TopicIdPartitions], *, joins: bool
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the request with the fields that changed, or with all of them if the member joins.

        `owned` has the partitions of the member, and a number that changes whenever they are to be sent again.
        """
        settings, subscription = self._settings, self._subscription
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id, member_id=member_id, member_epoch=epoch, instance_id=settings.instance_id
        )
        if joins:
            request.rack_id = settings.rack
            self._sent = {}
        if self._is_news("timeout", settings.poll_interval_ms_max):
            request.rebalance_timeout_ms = settings.poll_interval_ms_max
        if self._is_news("topics", subscription.topics):
            request.subscribed_topic_names = sorted(subscription.topics)
        pattern = subscription.server_pattern
        if pattern != self._sent.get("pattern"):
            # Without a value the coordinator would keep the pattern of before, so an empty one withdraws it (KIP-848).
            request.subscribed_topic_regex = pattern or ""
            self._sent["pattern"] = pattern
        if settings.server_assignor is not None and self._is_news("assignor", settings.server_assignor):
            request.server_assignor = settings.server_assignor
        if self._is_news("owned", owned):
            request.topic_partitions = [
                TopicPartitions(topic_id, sorted(indexes)) for topic_id, indexes in owned[1].items()
            ]
        return request

    def _is_news(self, name: str, value: object) -> bool:
        """Whether the value is not the one that was sent last. It counts as sent from now on."""
        if name in self._sent and self._sent[name] == value:
            return False
        self._sent[name] = value
        return True
