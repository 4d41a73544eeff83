"""The departure of members from a consumer group: they leave for good, leave for now (static members), or time out.

If all remaining members use the classic protocol, the group becomes a classic group.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.assignment import NOTHING, each
from pykbroker.core.group.consumer.check import LEAVING_FOR_NOW
from pykbroker.core.group.consumer.deadlines import REVOCATION, expect
from pykbroker.core.group.consumer.downgrade import downgrade, may_downgrade
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.reconcile import Current, MemberState
from pykbroker.core.group.consumer.topics import hash_of, names_of_all
from pykbroker.core.group.group import Group
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

RETRY_MS = 1000
"""The time until the next attempt to remove a member, if the log refused the records of the first attempt."""


def leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, token: Token, step: Step) -> None:
    """Remove the member, or mark a static member as absent, and reply with the request's member epoch."""
    group = shard.find_consumer(request.group_id)
    if group is None:
        raise no_consumer_group(shard.groups.get(request.group_id), request.group_id)
    member_id = request.member_id
    if request.instance_id is not None:
        check_instance(group, request.instance_id, member_id)
    if request.member_epoch == LEAVING_FOR_NOW:
        has = group.current.get(member_id, Current())
        # The instance is closed and reads nothing: others need not wait for the partitions that it had to revoke.
        away = replace(has, epoch=LEAVING_FOR_NOW, revoking=NOTHING, since=dict.fromkeys(each(has.assigned), 0))
        step.write(stored.current(group.id, member_id, away))
    else:
        if member_id not in group.members:
            raise unknown(group, member_id)
        remove(GroupDraft(group, step), shard, [member_id])
    step.reply(token, ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch))


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """Raise ApiError UNKNOWN_MEMBER_ID for an unknown instance id, FENCED_INSTANCE_ID if another member has it."""
    known = group.static.get(instance_id)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known}.",
        )


def no_consumer_group(group: Group | None, group_id: str, kind: str = "Group") -> ApiError:
    """Return the error for a group that does not exist or is classic. `kind` begins the message for a missing group."""
    why = f"{kind} {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, why)


def unknown(group: ConsumerGroup, member_id: str) -> ApiError:
    """Return the error for a member id that is not in this group."""
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.id}.")


def remove(draft: GroupDraft, shard: Shard, member_ids: Collection[str]) -> None:
    """Remove members for good and raise the group's epoch, so that their partitions are reassigned."""
    group = draft.group
    if may_downgrade(shard, group, member_ids):
        downgrade(draft, shard, member_ids, group.epoch)
        return
    for member_id in member_ids:
        tombstones(draft, member_id)
    group = draft.group
    subscribed = {member.subscribed_topic_regex for member in group.members.values()}
    for pattern in [one for one in group.regexes if one not in subscribed]:
        draft.write(stored.regex(group.id, pattern, None, 0, 0))
    group = draft.group
    # Targets are not computed here: the next heartbeat of any member finds that the epoch has none (`plan`).
    draft.write(stored.epoch(group.id, group.epoch + 1, hash_of(names_of_all(group), shard.topics())))


def tombstones(draft: GroupDraft, member_id: str) -> None:
    """Delete all records of the member."""
    group_id = draft.group.id
    draft.write(stored.current(group_id, member_id, None))
    draft.write(stored.target(group_id, member_id, None))
    draft.write(stored.member(group_id, member_id, None))


def resume(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """Restart every member's session and revocation deadline after a load."""
    for member_id, stored_member in group.members.items():
        expect(shard, group.id, member_id, stored_member, step)
        unrevoked = group.current.get(member_id, Current()).state is MemberState.UNREVOKED_PARTITIONS
        if unrevoked and not group.is_classic(member_id):
            shard.timers.set(Due(REVOCATION, group.id, member_id), step.now_ms + stored_member.rebalance_timeout_ms)


def session_due(shard: Shard, due: Due, step: Step) -> None:
    """Remove a member whose session, or whose deadline to rejoin or to fetch its assignment, has passed."""
    group = shard.find_consumer(due.group_id)
    if group is not None and due.member_id in group.members:
        _remove_overdue(shard, group, due, step)


def revocation_due(shard: Shard, due: Due, step: Step) -> None:
    """Remove a member that has not revoked its partitions in time."""
    group = shard.find_consumer(due.group_id)
    if group is not None:
        has = group.current.get(due.member_id)
        if has is not None and has.state is MemberState.UNREVOKED_PARTITIONS:
            _remove_overdue(shard, group, due, step)


def _remove_overdue(shard: Shard, group: ConsumerGroup, due: Due, step: Step) -> None:
    """Remove the member. The deadline is set again in case the log refuses the records; replaying them cancels it."""
    shard.timers.set(due, step.now_ms + RETRY_MS)
    remove(GroupDraft(group, step), shard, [due.member_id])
