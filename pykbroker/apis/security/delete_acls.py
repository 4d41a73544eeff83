"""DeleteAcls (31), v1-3: refuse to delete ACLs, because the broker has no authorizer that stores ACLs.

v1 pattern types (KIP-290)   v2 flexible   v3 the resource type USER (KIP-373)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.server.handler import Handler, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


class DeleteAcls(Handler, msgspec.Struct, frozen=True):
    """A handler that refuses each filter, as Kafka does when no authorizer is configured."""

    key: ClassVar = ApiKey.DELETE_ACLS
    versions: ClassVar[str] = "1-3"

    def __call__(self, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
        refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
