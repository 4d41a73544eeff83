"""Heartbeat: a member keeps its session alive and learns whether it must rejoin."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.rebalance import expect
from pykbroker.core.group.classic.state import ANSWERS
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Extend the member's session, even during a rebalance, and reply with the error code of the group's state."""
    request: HeartbeatRequest = client_request.message
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = shard.classic(request.group_id)
    member = group.check_current(request.member_id, request.group_instance_id, request.generation_id)
    expect(shard, group, member.id, member.session_timeout_ms, step)
    step.reply(token, HeartbeatResponse(error_code=ANSWERS[group.state].heartbeat))
