"""The rebalance of a classic group: its start, its deadlines, and the next generation."""

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
"""Kinds of deadlines: of a member's next heartbeat, of the members' JoinGroup, and of their SyncGroup.

BEGIN starts the rebalance of a group that was just converted to a classic group, or that waited for SyncGroups.
"""

SYNC_PATIENCE_MS = 10
"""The time after the leader's SyncGroup during which a JoinGroup waits for the SyncGroups of the other members.

Without it a rejoining member would interrupt them. Kafka answers the leader 2 to 5 ms later, after an append in another
thread, and so gives the other members that time.
"""


def expect(shard: Shard, group: ClassicGroup, member_id: str, timeout_ms: int, step: Step) -> None:
    """Restart the member's session: its next heartbeat must arrive within `timeout_ms`."""
    shard.timers.set(Due(SESSION, group.id, member_id), step.now_ms + timeout_ms)


def rebalance_or_complete(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Start a rebalance after a change of the members, or complete the current one if all have joined."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        prepare(shard, group, step)
    else:
        complete_if_all_joined(shard, group, step)


def rebalance_when_synced(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Start a rebalance for a member that rejoins.

    If other members may still send SyncGroup, wait for them first.
    """
    until_ms = group.assigned_ms + SYNC_PATIENCE_MS
    if group.state is ClassicGroupState.STABLE and group.unsynced and step.now_ms < until_ms:
        shard.timers.set(Due(BEGIN, group.id), until_ms)
    else:
        rebalance_or_complete(shard, group, step)


def complete_if_all_joined(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Complete the rebalance if all members have joined. The first rebalance of a group waits for its full delay."""
    preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    if preparing and group.all_joined and group.previous_state is not ClassicGroupState.EMPTY:
        complete_join(shard, group, step)


def prepare(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Start a rebalance: all members must rejoin. Waiting SyncGroups get REBALANCE_IN_PROGRESS."""
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
    # The members of a new group start one after the other. The delay gathers them in one generation (KIP-134).
    if is_first:
        delay_ms = shard.settings.group_initial_rebalance_delay_ms
        group.initial_ms_left = max(group.rebalance_timeout_ms - delay_ms, 0)
        shard.timers.set(Due(JOIN, group.id), step.now_ms + delay_ms)
    elif group.all_joined:
        complete_join(shard, group, step)
    else:
        shard.timers.set(Due(JOIN, group.id), step.now_ms + group.rebalance_timeout_ms)


def resume(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Restart the sessions of a loaded group. A group that was converted or exceeds the maximum size rebalances."""
    for member in group.members.values():
        expect(shard, group, member.id, member.session_timeout_ms, step)
    if group.must_begin or len(group.members) > shard.settings.group_max_size:
        prepare(shard, group, step)


def begin_due(shard: Shard, due: Due, step: Step) -> None:
    """Start a rebalance, unless one is in progress or the group has been deleted."""
    group = shard.find_classic(due.group_id)
    if group is not None and group.state is ClassicGroupState.STABLE:
        prepare(shard, group, step)


def join_due(shard: Shard, due: Due, step: Step) -> None:
    """Complete the rebalance. The first rebalance of a group is delayed again if members joined during its delay."""
    group = shard.classic(due.group_id)
    if group.member_added and group.initial_ms_left:
        group.member_added = False
        delay_ms = min(shard.settings.group_initial_rebalance_delay_ms, group.initial_ms_left)
        group.initial_ms_left -= delay_ms
        shard.timers.set(due, step.now_ms + delay_ms)
    elif group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join(shard, group, step)


def complete_join(shard: Shard, group: ClassicGroup, step: Step) -> None:
    """Begin the next generation with the members that have joined, and with static members, which may return later.

    If only static members remain and none of them has joined, wait for another rebalance timeout.
    """
    shard.timers.cancel(Due(JOIN, group.id))
    group.initial_ms_left, group.member_added = None, False
    for member in list(group.members.values()):
        # A static member keeps its place until its session times out, so that its restart moves no partition (KIP-345).
        if member.joining is None and member.instance_id is None:
            remove(shard, group, member, step)
    if not group.members:
        step.write(stored.empty(group, group.generation + 1, step.wall_ms))
    elif not group.elect():
        shard.timers.set(Due(JOIN, group.id), step.now_ms + group.rebalance_timeout_ms)
    else:
        group.begin_generation(step.wall_ms)
        for member in group.members.values():
            # Until here a new member had `NEW_MEMBER_JOIN_TIMEOUT_MS`, and the others sent no heartbeats while they
            # waited.
            group.unsynced.add(member.id)
            member.is_new = False
            expect(shard, group, member.id, member.session_timeout_ms, step)
            answer_join(group, member, step)
        # A member that sends heartbeats and no SyncGroup would otherwise keep partitions that it does not read.
        shard.timers.set(Due(SYNC, group.id), step.now_ms + group.rebalance_timeout_ms)


def sync_due(shard: Shard, due: Due, step: Step) -> None:
    """Remove the members that have not sent SyncGroup in time."""
    group = shard.classic(due.group_id)
    if group.unsynced:
        for member_id in sorted(group.unsynced):
            remove(shard, group, group.members[member_id], step)
        prepare(shard, group, step)


def session_due(shard: Shard, due: Due, step: Step) -> None:
    """Remove a member whose session has timed out, unless a request of it waits for its response.

    A new member is removed even then: it sends no heartbeats yet, so its connection may be dead. It may join again.
    """
    group = shard.find_classic(due.group_id)
    if group is None:
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
    # The rebalance may have waited for this member alone.
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(shard, group, step)


def remove(shard: Shard, group: ClassicGroup, member: ClassicMember, step: Step) -> None:
    """Remove the member. Its waiting requests get UNKNOWN_MEMBER_ID."""
    refuse_waiting(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", step)
    shard.timers.cancel(Due(SESSION, group.id, member.id))
    group.remove(member.id)


def refuse_waiting(group: ClassicGroup, member: ClassicMember, code: ErrorCode, member_id: str, step: Step) -> None:
    """Answer the member's waiting requests with this error."""
    joining, syncing = group.set_joining(member, None), member.syncing
    member.syncing = None
    if joining is not None:
        step.reply(joining, failed_join(code, member_id))
    if syncing is not None:
        step.reply(syncing, SyncGroupResponse(error_code=code))


def answer_join(group: ClassicGroup, member: ClassicMember, step: Step) -> None:
    """Answer the member's waiting JoinGroup with the new generation. Only the leader's response lists all members."""
    token = group.set_joining(member, None)
    if token is not None:
        step.reply(token, generation(group, member.id))


def answer_sync(
    shard: Shard, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse, step: Step
) -> None:
    """Answer the member's waiting SyncGroup and restart its session."""
    token: Token = member.syncing
    member.syncing = None
    step.reply(token, response)
    expect(shard, group, member.id, member.session_timeout_ms, step)


def generation(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """Return the member's JoinGroup response for the current generation."""
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
    """Return a JoinGroup response with an error, and without a generation."""
    return JoinGroupResponse(error_code=code, member_id=member_id)
