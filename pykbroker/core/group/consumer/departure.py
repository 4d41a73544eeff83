"""How members of a consumer group go: by themselves, for good or, static ones, for now; or because they are silent.

When those that are left all use the classic protocol, the group becomes a classic one.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.assignment import NOTHING, each
from pykbroker.core.group.consumer.check import LEAVING_FOR_NOW
from pykbroker.core.group.consumer.deadlines import REVOCATION, expect
from pykbroker.core.group.consumer.downgrade import downgrade, may_downgrade
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.reconcile import Current, MemberState
from pykbroker.core.group.consumer.topics import hash_of, names_of_all
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

RETRY_MS = 1000
"""After the log has refused that a member is put out."""


def leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, token: Token, step: Step) -> None:
    """Answered with the epoch that the member came with."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise no_consumer_group(group, request.group_id)
    member_id = request.member_id
    if request.instance_id is not None:
        check_instance(group, request.instance_id, member_id)
    if request.member_epoch == LEAVING_FOR_NOW:
        has = group.current.get(member_id, Current())
        away = replace(has, epoch=LEAVING_FOR_NOW, revoking=NOTHING, since=dict.fromkeys(each(has.assigned), 0))
        step.write(stored.current(group.id, member_id, away))
    else:
        if member_id not in group.members:
            raise unknown(group, member_id)
        remove(GroupDraft(group, step), shard, [member_id])
    step.reply(token, ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch))


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """ApiError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: another member bears this name."""
    known = group.static.get(instance_id)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known}.",
        )


def no_consumer_group(group: ClassicGroup | None, group_id: str, kind: str = "Group") -> ApiError:
    """There is no group of this name, or only a classic one. `kind`: of what there is none."""
    why = f"{kind} {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, why)


def unknown(group: ConsumerGroup, member_id: str) -> ApiError:
    """No member of this group."""
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.id}.")


def remove(draft: GroupDraft, shard: Shard, member_ids: Collection[str]) -> None:
    """These members are gone for good: the others are assigned what they had."""
    group = draft.group
    if may_downgrade(shard, group, member_ids):
        downgrade(draft, shard, member_ids, group.epoch)
        return
    for member_id in member_ids:
        tombstones(draft, member_id)
    group = draft.group
    asked = {member.subscribed_topic_regex for member in group.members.values()}
    for pattern in [one for one in group.regexes if one not in asked]:
        draft.write(stored.regex(group.id, pattern, None, 0, 0))
    group = draft.group
    draft.write(stored.epoch(group.id, group.epoch + 1, hash_of(names_of_all(group), shard.topics())))


def tombstones(draft: GroupDraft, member_id: str) -> None:
    """Nothing stands of the member any more."""
    group_id = draft.group.id
    draft.write(stored.current(group_id, member_id, None))
    draft.write(stored.target(group_id, member_id, None))
    draft.write(stored.member(group_id, member_id, None))


def resume(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """After a load every member has a whole session, and the time that it has to give back what it must."""
    for member_id, said in group.members.items():
        expect(shard, group.id, member_id, said, step)
        unrevoked = group.current.get(member_id, Current()).state is MemberState.UNREVOKED_PARTITIONS
        if unrevoked and not group.is_classic(member_id):
            shard.timers.set(Due(REVOCATION, group.id, member_id), step.now_ms + said.rebalance_timeout_ms)


def session_due(shard: Shard, due: Due, step: Step) -> None:
    """A member was not heard of in time, or has not done in time what it was to do."""
    group = shard.groups.get(due.group_id)
    if isinstance(group, ConsumerGroup) and due.member_id in group.members:
        _put_out(shard, group, due, step)


def revocation_due(shard: Shard, due: Due, step: Step) -> None:
    """A member has kept for too long what it was to give back."""
    group = shard.groups.get(due.group_id)
    if isinstance(group, ConsumerGroup):
        has = group.current.get(due.member_id)
        if has is not None and has.state is MemberState.UNREVOKED_PARTITIONS:
            _put_out(shard, group, due, step)


def _put_out(shard: Shard, group: ConsumerGroup, due: Due, step: Step) -> None:
    """It falls due again, unless the log takes what is written: that ends all deadlines of the member."""
    shard.timers.set(due, step.now_ms + RETRY_MS)
    remove(GroupDraft(group, step), shard, [due.member_id])
