"""Heartbeat (12), v0-4: keep a member of a classic group alive, and report whether it must rejoin.

v1 throttle time   v3 static members (KIP-345)   v4 flexible
"""

from __future__ import annotations

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import HEARTBEAT, require
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Heartbeat(ApiHandler, frozen=True):
    """A handler that reports success while the group is loading, since loading restarts the session of every member."""

    groups: Runtime

    def __call__(self, context: RequestContext, request: HeartbeatRequest) -> Answer:
        require(context, HEARTBEAT, request.group_id)
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            return now_or_later(self.groups.ask(request.group_id, ClientRequest(request, context.version)).answer())
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse()
            raise
