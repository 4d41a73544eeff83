"""The data of a group that its members exchange through the coordinator, and that another client may have encoded."""

from __future__ import annotations

from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.protocol import decode_assignment, decode_subscription
from pykbroker.core.consumer.errors import GroupDataMalformed
from pykbroker.core.topic_partition import TopicPartition
from wire.errors import DecodeError
from wire.messages.join_group import JoinGroupResponseMember


def subscription_of(member: JoinGroupResponseMember, group_id: str) -> MemberSubscription:
    """Return the subscription of a member of the group. Raise GroupDataMalformed if it does not decode."""
    try:
        return decode_subscription(member.metadata, member.group_instance_id)
    except DecodeError as error:
        raise malformed(f"the subscription of member '{member.member_id}'", group_id, error) from error


def assignment_of(data: bytes, group_id: str) -> list[TopicPartition]:
    """Return the partitions that the leader of the group has assigned. Raise GroupDataMalformed as above."""
    try:
        return decode_assignment(data)
    except DecodeError as error:
        raise malformed("the assignment of this member", group_id, error) from error


def malformed(subject: str, group_id: str, error: DecodeError) -> GroupDataMalformed:
    """Return the error of data that does not decode."""
    return GroupDataMalformed(f"group {group_id}: {subject} does not decode: {error}; poll again to join again")
