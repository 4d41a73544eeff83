"""DeleteAcls (31), v1-3: delete the ACLs that filters match, or refuse to if no authorizer is configured.

v1 pattern types (KIP-290)   v2 flexible   v3 the resource type USER (KIP-373)
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.delete_acls import filter_of
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Answer, ApiHandler, CloseConnection, Later, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.delete_acls import DeleteAclsRequest


class DeleteAcls(ApiHandler, frozen=True):
    """A handler that passes the request to the controller. `controller` is None if there are no ACLs."""

    controller: ActiveController | None = None

    def __call__(self, context: RequestContext, request: DeleteAclsRequest) -> Answer:
        if self.controller is None:
            raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        if any(filter_of(wanted).is_unknown for wanted in request.filters):
            raise CloseConnection("DeleteAcls has a filter of type UNKNOWN")
        return Later(self.controller.ask(request), holds_connection=True, awaits_node=True)
