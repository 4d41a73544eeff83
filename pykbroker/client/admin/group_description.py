"""The descriptions of groups, as ConsumerGroupDescribe and DescribeGroups return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykbroker.client.connection import BrokerConnection
from pykbroker.client.errors import UnsupportedVersion
from pykbroker.client.group_coordinators import refusal
from pykbroker.core.consumer.assignors.protocol import decode_assignment
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages import consumer_group_describe, describe_groups
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.list_groups import ListGroupsRequest

CLASSIC, CONSUMER = "Classic", "Consumer"
"""The types of groups that consumers form: classic groups, and those of the consumer protocol (KIP-848)."""
TYPES_VERSION = 5
"""The first version of ListGroups with the types of groups."""
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of all groups of consumers."""
DEAD = "Dead"
"""The state of an unknown group, which DescribeGroups returned instead of an error before version 6."""
NOT_OF_CONSUMER_PROTOCOL = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class MemberDescription(NamedTuple):
    """A member of a group. `assigned` is None if the assignment is no consumer's.

    `epoch` and `target` are None in a classic group.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: Sequence[TopicPartition] | None
    epoch: int | None = None
    target: Sequence[TopicPartition] | None = None


class GroupDescription(NamedTuple):
    """A group and its members. The epochs are None in a classic group."""

    group: str
    type: str
    state: str
    protocol: str
    assignor: str
    members: Sequence[MemberDescription]
    epoch: int | None = None
    assignment_epoch: int | None = None


async def described(connection: BrokerConnection, groups: Sequence[str]) -> dict[str, GroupDescription | ApiError]:
    """Describe groups of both types by their coordinator. A group is classic if it is not of the consumer protocol."""
    found = await described_consumer(connection, groups)
    others = [group for group in groups if is_unknown(found.get(group))]
    found |= await described_classic(connection, others)
    unknown = [group for group in others if is_unknown(found.get(group))]
    return {**found, **await of_other_types(connection, unknown)}


def is_unknown(outcome: GroupDescription | ApiError | None) -> bool:
    """Whether the coordinator has no such group of the consumer protocol."""
    return outcome is None or (isinstance(outcome, ApiError) and outcome.code in NOT_OF_CONSUMER_PROTOCOL)


async def of_other_types(connection: BrokerConnection, groups: Sequence[str]) -> dict[str, ApiError]:
    """Return an error for each of these groups that is of a type without committed offsets, such as a share group."""
    if not groups or connection.newest_version(ApiKey.LIST_GROUPS) < TYPES_VERSION:
        return {}
    types = {each.group_id: group_type(each.group_type) for each in (await connection.ask(ListGroupsRequest())).groups}
    return {
        group: ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Group '{group}' is of type {types[group]}, and consumers form only groups of types Classic and Consumer",
        )
        for group in groups
        if types.get(group, CLASSIC) not in (CLASSIC, CONSUMER)
    }


def group_type(name: str) -> str:
    """Return a type as Kafka's tools print it. The name is empty if the broker has only classic groups."""
    return name.capitalize() or CLASSIC


async def described_consumer(
    connection: BrokerConnection, groups: Sequence[str]
) -> dict[str, GroupDescription | ApiError]:
    """Describe groups of the consumer protocol. Return {} if the broker has no such groups."""
    try:
        answer = await connection.ask(ConsumerGroupDescribeRequest(list(groups)))
    except UnsupportedVersion:
        return {}
    return {each.group_id: of_consumer(each) for each in answer.groups}


async def described_classic(
    connection: BrokerConnection, groups: Sequence[str]
) -> dict[str, GroupDescription | ApiError]:
    """Return the descriptions of classic groups, or their errors, by group id."""
    if not groups:
        return {}
    answer = await connection.ask(DescribeGroupsRequest(list(groups)))
    return {each.group_id: of_classic(each) for each in answer.groups}


def of_consumer(group: consumer_group_describe.DescribedGroup) -> GroupDescription | ApiError:
    """Return the description of a group of the consumer protocol, or its error."""
    if group.error_code:
        return refusal(group.group_id, group.error_code, group.error_message)
    members = [
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            partitions(each.assignment),
            each.member_epoch,
            partitions(each.target_assignment),
        )
        for each in group.members
    ]
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        CONSUMER_PROTOCOL,
        group.assignor_name,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def partitions(assignment: consumer_group_describe.Assignment) -> list[TopicPartition]:
    """Return the partitions of an assignment in order."""
    return sorted(
        TopicPartition(each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions
    )


def of_classic(group: describe_groups.DescribedGroup) -> GroupDescription | ApiError:
    """Return the description of a classic group, or its error."""
    if group.error_code:
        return refusal(group.group_id, group.error_code, group.error_message)
    if group.group_state == DEAD:
        return refusal(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    members = [
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            classic_assignment(each.member_assignment) if group.protocol_type == CONSUMER_PROTOCOL else None,
        )
        for each in group.members
    ]
    return GroupDescription(
        group.group_id, CLASSIC, group.group_state, group.protocol_type, group.protocol_data, members
    )


def classic_assignment(data: bytes) -> list[TopicPartition] | None:
    """Return the partitions of a classic member in order, or None if the bytes, which a client chose, are invalid."""
    try:
        return sorted(decode_assignment(data)) if data else []
    except DecodeError:
        return None
