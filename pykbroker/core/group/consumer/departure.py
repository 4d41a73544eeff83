"""How members of a consumer group go: by themselves, for good or, static ones, for now; or because they are silent."""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.check import LEAVING_FOR_NOW
from pykbroker.core.group.consumer.draft import Draft
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.reconcile import Current, MemberState
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

CONSUMER_SESSION, REVOCATION = "consumer session", "revocation"
"""What falls due: a member's next heartbeat, and that it has given back what it was to give back."""


def expect(shard: Shard, group_id: str, member_id: str, step: Step) -> None:
    """The member has shown that it lives, and must do so again in time."""
    due = step.now_ms + shard.settings.group_consumer_session_timeout_ms
    shard.timers.set(Due(CONSUMER_SESSION, group_id, member_id), due)


def leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, token: Token, step: Step) -> None:
    """Answered with the epoch that the member came with."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    member_id = request.member_id
    if request.instance_id is not None and request.member_epoch == LEAVING_FOR_NOW:
        check_instance(group, request.instance_id, member_id)
        has = group.current.get(member_id, Current())
        step.write(stored.current(group.id, member_id, replace(has, epoch=LEAVING_FOR_NOW)))
    else:
        if member_id not in group.members:
            raise unknown(group, member_id)
        remove(Draft(group, step), shard, member_id)
    step.reply(token, ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch))


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """ApiError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: another member bears this name."""
    known = group.static.get(instance_id)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known != member_id:
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"Static member {member_id} with instance id {instance_id} was "
                       f"fenced by member {known}.")


def unknown(group: ConsumerGroup, member_id: str) -> ApiError:
    """No member of this group."""
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.id}.")


def remove(draft: Draft, shard: Shard, member_id: str) -> None:
    """The member is gone for good: the others are assigned what it had."""
    tombstones(draft, shard, member_id)
    group = draft.group
    asked = {member.subscribed_topic_regex for member in group.members.values()}
    for pattern in [one for one in group.regexes if one not in asked]:
        draft.write(stored.regex(group.id, pattern, None, 0, 0))
    draft.write(stored.epoch(group.id, group.epoch + 1, group.metadata_hash if group.members else 0))


def tombstones(draft: Draft, shard: Shard, member_id: str) -> None:
    """Nothing stands of the member any more, and nothing of it falls due."""
    group_id = draft.group.id
    draft.write(stored.current(group_id, member_id, None))
    draft.write(stored.target(group_id, member_id, None))
    draft.write(stored.member(group_id, member_id, None))
    for kind in (CONSUMER_SESSION, REVOCATION):
        shard.timers.cancel(Due(kind, group_id, member_id))


def resume(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """After a load every member has a whole session, and the time that it has to give back what it must."""
    for member_id, said in group.members.items():
        expect(shard, group.id, member_id, step)
        if group.current.get(member_id, Current()).state is MemberState.UNREVOKED_PARTITIONS:
            shard.timers.set(Due(REVOCATION, group.id, member_id), step.now_ms + said.rebalance_timeout_ms)


def session_due(shard: Shard, due: Due, step: Step) -> None:
    """A member was not heard of in time."""
    group = shard.groups.get(due.group_id)
    if isinstance(group, ConsumerGroup) and due.member_id in group.members:
        remove(Draft(group, step), shard, due.member_id)


def revocation_due(shard: Shard, due: Due, step: Step) -> None:
    """A member has kept for too long what it was to give back."""
    group = shard.groups.get(due.group_id)
    if isinstance(group, ConsumerGroup):
        has = group.current.get(due.member_id)
        if has is not None and has.state is MemberState.UNREVOKED_PARTITIONS:
            remove(Draft(group, step), shard, due.member_id)


