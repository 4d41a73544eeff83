"""CreateAcls (30), v1-3: create ACLs, or refuse to if no authorizer is configured.

v1 pattern types (KIP-290)   v2 flexible   v3 the resource type USER (KIP-373)
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.security.acl.acl import UNKNOWN
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Answer, ApiHandler, CloseConnection, Later, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.create_acls import CreateAclsRequest


class CreateAcls(ApiHandler, frozen=True):
    """A handler that passes the request to the controller. `controller` is None if there are no ACLs."""

    controller: ActiveController | None = None

    def __call__(self, context: RequestContext, request: CreateAclsRequest) -> Answer:
        if self.controller is None:
            raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        for one in request.creations:
            if UNKNOWN in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type):
                raise CloseConnection("CreateAcls has an ACL of type UNKNOWN")
        return Later(self.controller.ask(request), holds_connection=True, awaits_node=True)
