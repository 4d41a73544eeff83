"""The handlers for consumer groups and their offsets."""

from __future__ import annotations

from pykbroker.apis.groups.consumer_group_describe import ConsumerGroupDescribe
from pykbroker.apis.groups.consumer_group_heartbeat import ConsumerGroupHeartbeat
from pykbroker.apis.groups.delete_groups import DeleteGroups
from pykbroker.apis.groups.describe_groups import DescribeGroups
from pykbroker.apis.groups.find_coordinator import FindCoordinator
from pykbroker.apis.groups.heartbeat import Heartbeat
from pykbroker.apis.groups.join_group import JoinGroup
from pykbroker.apis.groups.leave_group import LeaveGroup
from pykbroker.apis.groups.list_groups import ListGroups
from pykbroker.apis.groups.offset_commit import OffsetCommit
from pykbroker.apis.groups.offset_delete import OffsetDelete
from pykbroker.apis.groups.offset_fetch import OffsetFetch
from pykbroker.apis.groups.sync_group import SyncGroup
from pykbroker.broker.parts import Parts
from pykbroker.core.coordinator.topic import groups_topic, transactions_topic
from pykbroker.server.handler import Handler
from wire.messages.find_coordinator import CoordinatorType

GROUP_FEATURE = "group.version"


def group_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.groups`."""
    groups, image, config = parts.groups, parts.image, parts.settings.config

    def has_consumer_groups() -> bool:
        """Whether this broker's configs and the cluster's `group.version` enable the consumer protocol (KIP-848)."""
        return image().features.level(GROUP_FEATURE) > 0 and "consumer" in config.group_coordinator_rebalance_protocols

    def was_stopped() -> bool:
        """Whether the session of this broker may have ended without its knowledge.

        The last heartbeat is at most an interval older than the last request for metadata. Half a session would be
        too short: a quiet fetch waits for 500 ms, and a session of 1 s would then refuse every OffsetFetch.
        """
        return parts.quorum.was_silent((config.broker_session_timeout_ms - config.broker_heartbeat_interval_ms) / 1000)

    return [
        FindCoordinator(
            image=image,
            automatic=parts.automatic_topics,
            topics={
                CoordinatorType.GROUP: groups_topic(config),
                CoordinatorType.TRANSACTION: transactions_topic(config),
            },
            endpoints=parts.endpoints,
        ),
        JoinGroup(groups),
        SyncGroup(groups),
        Heartbeat(groups),
        LeaveGroup(groups),
        OffsetCommit(groups, image),
        OffsetFetch(groups, image, was_stopped),
        OffsetDelete(groups, image),
        ConsumerGroupHeartbeat(groups, has_consumer_groups),
        ConsumerGroupDescribe(groups, has_consumer_groups),
        ListGroups(groups),
        DescribeGroups(groups),
        DeleteGroups(groups),
    ]
