"""CreateAcls (30), v1-3: refuse to create ACLs, because the broker has no authorizer that stores ACLs.

v1 pattern types (KIP-290)   v2 flexible   v3 the resource type USER (KIP-373)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.server.handler import Handler, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


class CreateAcls(Handler, msgspec.Struct, frozen=True):
    """A handler that refuses each ACL, as Kafka does when no authorizer is configured."""

    key: ClassVar = ApiKey.CREATE_ACLS
    versions: ClassVar[str] = "1-3"

    def __call__(self, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
        refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        return CreateAclsResponse(results=[refused] * len(request.creations))
