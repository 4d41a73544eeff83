"""LeaveGroup (13), v0-5: remove members from a classic group, at their own or an admin's request.

v1 throttle time   v3 several members, static members by instance id (KIP-345)   v4 flexible   v5 reason (KIP-800)
"""

from __future__ import annotations

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.rights import LEAVE_GROUP, require
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.messages.leave_group import LeaveGroupRequest


class LeaveGroup(ApiHandler, frozen=True):
    """A handler that authorizes the request and passes it to the group coordinator."""

    groups: Runtime

    def __call__(self, context: RequestContext, request: LeaveGroupRequest) -> Answer:
        require(context, LEAVE_GROUP, request.group_id)
        return now_or_later(self.groups.ask(request.group_id, ClientRequest(request, context.version)).answer())
