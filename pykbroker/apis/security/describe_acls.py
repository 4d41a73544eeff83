"""DescribeAcls (29), v1-3: refuse to list ACLs, because the broker has no authorizer that stores ACLs.

v1 pattern types (KIP-290)   v2 flexible   v3 the resource type USER (KIP-373)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.server.handler import Handler, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class DescribeAcls(Handler, msgspec.Struct, frozen=True):
    """A handler that refuses the request, as Kafka does when no authorizer is configured."""

    key: ClassVar = ApiKey.DESCRIBE_ACLS
    versions: ClassVar[str] = "1-3"

    def __call__(self, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
