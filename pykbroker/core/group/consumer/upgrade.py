"""Conversion of a classic group to a consumer group. Its members continue to use the classic protocol (KIP-848).

The generation becomes the group's epoch, and the leader's assignment becomes each member's current assignment.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.group import CONSUMER, ClassicGroup
from pykbroker.core.group.classic.member import ClassicMember
from pykbroker.core.group.classic.rebalance import refuse_waiting
from pykbroker.core.group.classic.state import ClassicGroupState
from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.assignment import Assignment, each
from pykbroker.core.group.consumer.deadlines import expect
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.embedded import classic_metadata, read_assignment, read_subscription
from pykbroker.core.group.consumer.group import StoredMember
from pykbroker.core.group.consumer.reconcile import Current
from pykbroker.core.group.consumer.topics import hash_of
from pykbroker.core.group.shard import Shard
from pykbroker.core.metadata.image import TopicsImage
from wire.error_codes import ErrorCode
from wire.errors import DecodeError


class Converted(msgspec.Struct, frozen=True):
    """A member of a classic group, converted to a member of a consumer group."""

    id: str
    stored_member: StoredMember
    has: Assignment


def upgrade(draft: GroupDraft, shard: Shard, group: ClassicGroup) -> None:
    """Delete the classic group and write its members to the draft.

    Raise ApiError GROUP_ID_NOT_FOUND if the group cannot be converted.
    """
    if group.state is ClassicGroupState.EMPTY:
        for record in group.tombstones():
            draft.step.write(record)
        return
    _check_allowed(shard, group)
    topics, generation = shard.topics(), group.generation
    members = _converted(group, topics)
    for record in group.tombstones():
        draft.step.write(record)
    for one in members:
        draft.write(stored.member(group.id, one.id, one.stored_member))
    names = {name for one in members for name in one.stored_member.subscribed_topic_names}
    draft.write(stored.epoch(group.id, generation, hash_of(names, topics)))
    for one in members:
        # The targets are what the members have: the conversion by itself moves no partition.
        draft.write(stored.target(group.id, one.id, one.has))
    draft.write(stored.assigned(group.id, generation, 0))
    for one in members:
        since = dict.fromkeys(each(one.has), generation)
        draft.write(stored.current(group.id, one.id, Current(generation, generation, assigned=one.has, since=since)))


def answer_members(shard: Shard, group: ClassicGroup, draft: GroupDraft) -> None:
    """Answer the classic group's waiting requests with REBALANCE_IN_PROGRESS, and restart all members' sessions.

    The caller must not refuse its own request afterwards, since a waiting request is answered only once.
    """
    for member in group.members.values():
        refuse_waiting(group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.id, draft.step)
        if member.id in draft.group.members:
            expect(shard, group.id, member.id, draft.group.members[member.id], draft.step)


def _check_allowed(shard: Shard, group: ClassicGroup) -> None:
    if not shard.settings.upgrades:
        raise _not_convertible(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER:
        raise _not_convertible(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > shard.settings.group_consumer_max_size:
        raise _not_convertible(group, "the group size exceeds the consumer group maximum size")


def _converted(group: ClassicGroup, topics: TopicsImage) -> list[Converted]:
    try:
        members = [_member(group, member, topics) for member in group.members.values()]
    except DecodeError:
        raise _not_convertible(group, "the embedded consumer protocol is malformed") from None
    places = [place for one in members for place in each(one.has)]
    # A partition of a consumer group has one owner, while a client-side assignor may give it to two members.
    if len(places) > len(set(places)):
        raise _not_convertible(group, "some of its members share partitions")
    return members


def _member(group: ClassicGroup, member: ClassicMember, topics: TopicsImage) -> Converted:
    """Convert a member. Without an assignment it owns nothing. Raise ApiError if its custom assignor uses user data."""
    subscription = read_subscription(member.metadata(group.protocol) or member.protocols[0][1])
    has, user_data = read_assignment(member.assignment, topics) if member.assignment else ({}, b"")
    if user_data:
        raise _not_convertible(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to "
            "a default assignor before re-attempting the upgrade",
        )
    stored_member = StoredMember(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
    )
    return Converted(member.id, stored_member, has)


def _not_convertible(group: ClassicGroup, why: str) -> ApiError:
    """Return the error for a group that is not converted.

    The message is Kafka's, except for shared partitions, which Kafka does not check.
    """
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group.id} to consumer group because {why}."
    )
