"""The requests of a classic member to its coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from pykbroker.core.consumer.assignors.assignor import Assignor
from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.protocol import encode_subscription
from pykbroker.core.consumer.membership.generation import MemberGeneration
from pykbroker.core.consumer.membership.steps import MemberSettings
from pykbroker.core.consumer.subscription import ConsumerSubscription
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.sync_group import SyncGroupRequest

PROTOCOL_TYPE = "consumer"
REASON_CHARS_MAX = 255
"""The length to which Kafka's clients cut the reason of a JoinGroup or LeaveGroup (`maybeTruncateReason`, KIP-800)."""


def join_request(
    settings: MemberSettings,
    subscription: ConsumerSubscription,
    generation: MemberGeneration,
    assignors: Sequence[Assignor],
    reason: str,
) -> JoinGroupRequest:
    """Return the request to join, with the subscription in the form of each assignor."""
    owned = tuple(subscription.partitions)
    protocols = []
    for assignor in assignors:
        mine = MemberSubscription(subscription.topics, assignor.user_data(), owned, generation.number, settings.rack)
        protocols.append(JoinGroupRequestProtocol(assignor.name, encode_subscription(mine)))
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.poll_interval_ms_max,
        member_id=generation.member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason[:REASON_CHARS_MAX],
    )


def sync_request(settings: MemberSettings, generation: MemberGeneration) -> SyncGroupRequest:
    """Return the request for the assignment. A leader adds the assignments of all members."""
    number, member_id, protocol = generation
    return SyncGroupRequest(settings.group_id, number, member_id, settings.instance_id, PROTOCOL_TYPE, protocol, [])


def heartbeat_request(settings: MemberSettings, generation: MemberGeneration) -> HeartbeatRequest:
    """Return the next heartbeat."""
    return HeartbeatRequest(settings.group_id, generation.number, generation.member_id, settings.instance_id)


def leave_request(settings: MemberSettings, generation: MemberGeneration, reason: str) -> LeaveGroupRequest:
    """Return the request to leave, in the form of version 3 and later."""
    identity = MemberIdentity(generation.member_id, None, reason[:REASON_CHARS_MAX])
    return LeaveGroupRequest(settings.group_id, members=[identity])
