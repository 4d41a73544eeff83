"""LeaveGroup: members leave, or an administrator removes static members."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic import rebalance
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.state import ClassicGroupState
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

MEMBERS_VERSION_FIRST = 3


def leave(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Remove each member of the request, then rebalance once. Before version 3 a request has one member and no list."""
    request: LeaveGroupRequest = client_request.message
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    identities = leaving(request, client_request.version)
    group = shard.find_classic(request.group_id)
    if group is not None:
        codes = [_leave(shard, group, identity, step) for identity in identities]
        if not all(codes):
            _rebalance(shard, group, step)
    else:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID for _ in identities]
    step.reply(token, answer(identities, codes, client_request.version))


def leaving(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Return the members that the request names."""
    return [MemberIdentity(member_id=request.member_id)] if version < MEMBERS_VERSION_FIRST else request.members


def answer(identities: list[MemberIdentity], codes: list[ErrorCode], version: int) -> LeaveGroupResponse:
    """Return the response with each member's error code."""
    if version < MEMBERS_VERSION_FIRST:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(one.member_id, one.group_instance_id, code)
            for one, code in zip(identities, codes, strict=True)
        ]
    )


def _leave(shard: Shard, group: ClassicGroup, identity: MemberIdentity, step: Step) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        member_id = group.static.get(instance_id or "", "")
        if not member_id or instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    if member_id in group.pending:
        # The group has only given out this id, and no member has joined under it (KIP-394).
        group.pending.discard(member_id)
        shard.timers.cancel(Due(rebalance.SESSION, group.id, member_id))
        return ErrorCode.NONE
    try:
        rebalance.remove(shard, group, group.check(member_id, instance_id), step)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _rebalance(shard: Shard, group: ClassicGroup, step: Step) -> None:
    if group.state is not ClassicGroupState.EMPTY:
        rebalance.rebalance_or_complete(shard, group, step)
