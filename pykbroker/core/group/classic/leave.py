"""LeaveGroup: members go, by themselves or put out by an administrator who names static ones."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.asked import Asked
from pykbroker.core.group.classic import rebalance
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.state import State
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

MEMBERS_VERSION_FIRST = 3


def leave(shard: Shard, asked: Asked, token: Token, step: Step) -> None:
    """Each member is answered for itself; the others rebalance once. Before version 3 there is one, and no list."""
    request: LeaveGroupRequest = asked.message
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    one_by_name = asked.version < MEMBERS_VERSION_FIRST
    leaving = [MemberIdentity(member_id=request.member_id)] if one_by_name else request.members
    group = shard.groups.get(request.group_id)
    if isinstance(group, ClassicGroup):
        answers = [_leave(shard, group, identity, step) for identity in leaving]
        if any(not answer.error_code for answer in answers):
            _close_ranks(shard, group, step)
    else:
        answers = [_answer(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in leaving]
    code = answers[0].error_code if one_by_name else ErrorCode.NONE
    step.reply(token, LeaveGroupResponse(error_code=code, members=[] if one_by_name else answers))


def _leave(shard: Shard, group: ClassicGroup, identity: MemberIdentity, step: Step) -> MemberResponse:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        member_id = group.static.get(instance_id or "", "")
        if not member_id or instance_id is None:
            return _answer(identity, ErrorCode.UNKNOWN_MEMBER_ID)
    if member_id in group.pending:
        group.pending.discard(member_id)
        shard.timers.cancel(Due(rebalance.SESSION, group.id, member_id))
        return _answer(identity, ErrorCode.NONE)
    try:
        rebalance.remove(shard, group, group.check(member_id, instance_id), step)
    except ApiError as error:
        return _answer(identity, error.code)
    return _answer(identity, ErrorCode.NONE)


def _close_ranks(shard: Shard, group: ClassicGroup, step: Step) -> None:
    if group.state is not State.EMPTY:
        rebalance.rebalance_or_complete(shard, group, step)


def _answer(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(identity.member_id, identity.group_instance_id, code)
