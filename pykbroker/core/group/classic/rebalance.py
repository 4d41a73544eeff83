"""A rebalance of a classic group: who sets it off, how long it waits, and what comes of it."""

from __future__ import annotations

from pykbroker.core.group.classic import stored
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.member import ClassicMember
from pykbroker.core.group.classic.state import ClassicGroupState
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from wire.messages.sync_group import SyncGroupResponse

SESSION, JOIN, SYNC, BEGIN = "session", "join", "sync", "begin"
"""What falls due: a member's next heartbeat, the end of the wait for members to join, and for them to sync; and the
rebalance of a group that has just become a classic one, or whose members have been given time to sync.
"""

SYNC_PATIENCE_MS = 10
"""How long after the leader's SyncGroup a JoinGroup of the same members waits for the SyncGroups of the others.

Kafka answers the leader after an append in another thread, 2 to 5 ms later, and so gives its followers that time.
"""


def expect(shard: Shard, group: ClassicGroup, member_id: str, timeout_ms: int, step: Step) -> None:
    """The member has shown that it lives, and must do so again within this time."""
    shard.timers.set(Due(SESSION, group.id, member_id), step.now_ms + timeout_ms)


def rebalance_or_complete(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Something about the members has changed."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        prepare(shard, group, step)
    else:
        complete_if_all_joined(shard, group, step)


def rebalance_when_synced(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """A member joins anew, which may have been faster than another one's SyncGroup of the generation that ends."""
    until_ms = group.assigned_ms + SYNC_PATIENCE_MS
    if group.state is ClassicGroupState.STABLE and group.unsynced and step.now_ms < until_ms:
        shard.timers.set(Due(BEGIN, group.id), until_ms)
    else:
        rebalance_or_complete(shard, group, step)


def complete_if_all_joined(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """End the wait; but a first rebalance waits its time out."""
    preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    if preparing and group.all_joined and group.previous_state is not ClassicGroupState.EMPTY:
        complete_join(shard, group, step)


def prepare(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Everybody must join again. Who already waits for an assignment is told so."""
    for member in group.members.values():
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            member.assignment = b""
        if member.syncing is not None:
            answer_sync(shard, group, member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), step)
    group.unsynced.clear()
    for kind in (SYNC, BEGIN):
        shard.timers.cancel(Due(kind, group.id))
    is_first = group.state is ClassicGroupState.EMPTY
    group.move(ClassicGroupState.PREPARING_REBALANCE, step.wall_ms)
    if is_first:
        delay_ms = shard.settings.group_initial_rebalance_delay_ms
        group.initial_ms_left = max(group.rebalance_timeout_ms - delay_ms, 0)
        shard.timers.set(Due(JOIN, group.id), step.now_ms + delay_ms)
    elif group.all_joined:
        complete_join(shard, group, step)
    else:
        shard.timers.set(Due(JOIN, group.id), step.now_ms + group.rebalance_timeout_ms)


def begin_due(shard: Shard, due: Due, step: Step) -> None:
    """All must join, unless that is under way, or the group is gone by now."""
    group = shard.groups.get(due.group_id)
    if isinstance(group, ClassicGroup) and group.state is ClassicGroupState.STABLE:
        prepare(shard, group, step)


def join_due(shard: Shard, due: Due, step: Step) -> None:
    """The wait is over, unless members came while a first rebalance was put off: then it is put off again."""
    group = shard.classic(due.group_id)
    if group.member_added and group.initial_ms_left:
        group.member_added = False
        delay_ms = min(shard.settings.group_initial_rebalance_delay_ms, group.initial_ms_left)
        group.initial_ms_left -= delay_ms
        shard.timers.set(due, step.now_ms + delay_ms)
    elif group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join(shard, group, step)


def complete_join(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Begin the next generation with those who have joined, and with static members, who may have been away.

    If none of the static ones that are left has joined, wait on.
    """
    shard.timers.cancel(Due(JOIN, group.id))
    group.initial_ms_left, group.member_added = None, False
    for member in list(group.members.values()):
        if member.joining is None and member.instance_id is None:
            remove(shard, group, member, step)
    if not group.members:
        step.write(stored.empty(group, group.generation + 1, step.wall_ms))
    elif not group.elect():
        shard.timers.set(Due(JOIN, group.id), step.now_ms + group.rebalance_timeout_ms)
    else:
        group.begin_generation(step.wall_ms)
        for member in group.members.values():
            group.unsynced.add(member.id)
            member.is_new = False
            expect(shard, group, member.id, member.session_timeout_ms, step)
            answer_join(group, member, step)
        shard.timers.set(Due(SYNC, group.id), step.now_ms + group.rebalance_timeout_ms)


def sync_due(shard: Shard, due: Due, step: Step) -> None:
    """Who has not asked for its assignment by now is gone."""
    group = shard.classic(due.group_id)
    if group.unsynced:
        for member_id in sorted(group.unsynced):
            remove(shard, group, group.members[member_id], step)
        prepare(shard, group, step)


def session_due(shard: Shard, due: Due, step: Step) -> None:
    """A member was not heard of in time: it is gone, unless it waits for an answer of ours.

    One that is new has no heartbeats to send and might wait here with a connection that is long dead: it is let go,
    and asks again if it is still there.
    """
    group = shard.groups.get(due.group_id)
    if not isinstance(group, ClassicGroup):
        return
    member = group.members.get(due.member_id)
    if due.member_id in group.pending:
        group.pending.discard(due.member_id)
    elif member is not None and (member.is_new or not member.awaits_answer):
        remove(shard, group, member, step)
        if group.state is not ClassicGroupState.PREPARING_REBALANCE:
            prepare(shard, group, step)
            return
    else:
        return
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(shard, group, step)


def remove(shard: Shard, group: ClassicGroup, member: ClassicMember, step: Step) -> None:
    """The member is gone; its caller, if one is parked, learns that it is no member."""
    refuse_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", step)
    shard.timers.cancel(Due(SESSION, group.id, member.id))
    group.remove(member.id)


def refuse_parked(group: ClassicGroup, member: ClassicMember, code: ErrorCode, member_id: str, step: Step) -> None:
    """Whoever is parked for this member is told that it need not wait."""
    joining, syncing = group.park_joining(member, None), member.syncing
    member.syncing = None
    if joining is not None:
        step.reply(joining, failed_join(code, member_id))
    if syncing is not None:
        step.reply(syncing, SyncGroupResponse(error_code=code))


def answer_join(group: ClassicGroup, member: ClassicMember, step: Step) -> None:
    """Tell a member that has joined about the generation; if it leads, about all members."""
    token = group.park_joining(member, None)
    if token is not None:
        step.reply(token, generation(group, member.id))


def answer_sync(
    shard: Shard, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse, step: Step
) -> None:
    """Answer the caller that waits for the member's assignment; its heartbeats begin."""
    token: Token = member.syncing
    member.syncing = None
    step.reply(token, response)
    expect(shard, group, member.id, member.session_timeout_ms, step)


def generation(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The generation as this member shall know it."""
    members = (
        [
            JoinGroupResponseMember(one.id, one.instance_id, one.metadata(group.protocol))
            for one in group.members.values()
        ]
        if member_id == group.leader
        else []
    )
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


def failed_join(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A refusal, in the form that Kafka gives it."""
    return JoinGroupResponse(error_code=code, member_id=member_id)
