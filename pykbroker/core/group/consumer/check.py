"""The checks of a ConsumerGroupHeartbeat that need no group: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2
"""Special values of a request's member epoch. LEAVING_FOR_NOW is for static members that will return."""
OWN_ID_VERSION_FIRST = 1
"""The first version in which members choose their own member ids."""


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Raise ApiError if a required field is missing, or a field has an invalid value."""
    epoch = request.member_epoch
    fault = None
    if not request.group_id.strip():
        fault = "GroupId can't be empty."
    # In version 0, the coordinator may choose the id of a member that joins (KIP-1082).
    elif not request.member_id.strip() and (request.member_id or version >= OWN_ID_VERSION_FIRST or epoch != JOINING):
        fault = "MemberId can't be empty."
    elif request.instance_id is not None and not request.instance_id.strip():
        fault = "InstanceId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        fault = "RackId can't be empty."
    elif epoch < LEAVING_FOR_NOW:
        fault = "MemberEpoch is invalid."
    elif epoch == LEAVING_FOR_NOW and request.instance_id is None:
        fault = "InstanceId can't be null."
    elif epoch == JOINING:
        fault = _joining(request)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, fault)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def full(size_max: int) -> ApiError:
    """Return the error for a member that would exceed the maximum size of the group."""
    return ApiError(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {size_max} members."
    )


def _joining(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
