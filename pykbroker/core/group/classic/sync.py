"""SyncGroup: the leader of a new generation sends all assignments, and each member fetches its own."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic import rebalance, stored
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.member import ClassicMember
from pykbroker.core.group.classic.state import ANSWERS, ClassicGroupState
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Answer with the member's assignment, or make the request wait until the leader has sent the assignments."""
    request: SyncGroupRequest = client_request.message
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = shard.classic(request.group_id)
    member = group.check_current(request.member_id, request.group_instance_id, request.generation_id)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if code := ANSWERS[group.state].sync:
        raise ApiError(code)
    group.unsynced.discard(member.id)
    if not group.unsynced:
        shard.timers.cancel(Due(rebalance.SYNC, group.id))
    if group.state is ClassicGroupState.STABLE:
        step.reply(token, _assignment(group, member.assignment))
        # A member that rejoined early waits for this last SyncGroup: see `rebalance_when_synced`.
        if group.joined and not group.unsynced:
            rebalance.prepare(shard, group, step)
    else:
        _park(member, token, step)
        if member.id == group.leader:
            _assign(shard, group, request, step)


def _differs(requested: str | None, known: str | None) -> bool:
    return requested is not None and known is not None and requested != known


def _park(member: ClassicMember, token: Token, step: Step) -> None:
    # A client repeats a SyncGroup only after it has given up the earlier one.
    if member.syncing is not None:
        step.reply(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.syncing = token


def _assign(shard: Shard, group: ClassicGroup, request: SyncGroupRequest, step: Step) -> None:
    """Store the generation and answer all waiting SyncGroups. A member without an assignment gets an empty one."""
    given = {one.member_id: bytes(one.assignment) for one in request.assignments}
    step.write(stored.assigned(group, given))
    group.assigned_ms = step.now_ms
    for member in group.members.values():
        if member.syncing is not None:
            response = _assignment(group, given.get(member.id, b""))
            rebalance.answer_sync(shard, group, member, response, step)


def _assignment(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)
