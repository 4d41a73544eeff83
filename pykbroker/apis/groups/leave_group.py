"""LeaveGroup (13), v0-5: remove members from a classic group, at their own or an admin's request.

v1 throttle time   v3 several members, static members by instance id (KIP-345)   v4 flexible   v5 reason (KIP-800)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.server.handler import Answer, Handler, RequestContext, now_or_later
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


class LeaveGroup(Handler, msgspec.Struct, frozen=True):
    """A handler that authorizes the request and passes it to the group coordinator."""

    key: ClassVar = ApiKey.LEAVE_GROUP
    versions: ClassVar[str] = "0-5"
    groups: Runtime
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: LeaveGroupRequest) -> Answer:
        if not self.authorizer.allows(context.session, Operation.READ, ResourceType.GROUP, request.group_id):
            return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return now_or_later(self.groups.ask(request.group_id, ClientRequest(request, context.version)).answer())
