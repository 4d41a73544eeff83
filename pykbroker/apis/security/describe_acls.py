"""DescribeAcls (29), v1-3: list the ACLs that a filter matches, or refuse to if no authorizer is configured.

v1 pattern types (KIP-290)   v2 flexible   v3 the resource type USER (KIP-373)
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.delete_acls import filter_of
from pykbroker.core.metadata.image import AclsImage, MetadataImage
from pykbroker.core.security.acl.acl import order
from pykbroker.core.security.acl.filter import AclFilter
from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, ApiHandler, CloseConnection, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse


class DescribeAcls(ApiHandler, frozen=True):
    """A handler that returns the ACLs by resource, in the order of their fields. `image` is None without ACLs."""

    image: Callable[[], MetadataImage] | None = None

    def __call__(self, context: RequestContext, request: DescribeAclsRequest) -> Answer:
        if self.image is None:
            raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        matches = filter_of(request)
        if matches.is_unknown:
            raise CloseConnection("DescribeAcls has a filter of type UNKNOWN")
        return now_or_later(described(self.image().acls, matches))


def described(acls: AclsImage, matches: AclFilter) -> Steps[DescribeAclsResponse]:
    """Return the response with the ACLs that the filter matches."""
    found = []
    for acl in acls.by_id.values():
        if matches(acl):
            found.append(acl)
        yield
    found.sort(key=order)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in found:
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        if pattern not in resources:
            resources[pattern] = DescribeAclsResource(*pattern, acls=[])
        resources[pattern].acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type))
        yield
    return DescribeAclsResponse(resources=list(resources.values()))
