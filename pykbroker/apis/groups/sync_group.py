"""SyncGroup (14), v0-5: return a member's assignment; the leader's request carries the assignments of all members.

v1 throttle time   v3 static members (KIP-345)   v4 flexible   v5 protocol type and name (KIP-559)
"""

from __future__ import annotations

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import SYNC_GROUP, require
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION_FIRST = 5


class SyncGroup(ApiHandler, frozen=True):
    """A handler that authorizes the request and passes it to the group coordinator."""

    groups: Runtime

    def __call__(self, context: RequestContext, request: SyncGroupRequest) -> Answer:
        if context.version >= PROTOCOL_VERSION_FIRST and not (request.protocol_type and request.protocol_name):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        require(context, SYNC_GROUP, request.group_id)
        return now_or_later(self.groups.ask(request.group_id, ClientRequest(request, context.version)).answer())
