"""The ACLs of a cluster: requests that create, describe and delete them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from pykbroker.client.admin.admin import Admin, check
from pykbroker.core.security.acl.acl import Acl, acl_of
from pykbroker.core.security.acl.filter import AclFilter
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest


async def describe_acls(admin: Admin, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that a filter matches. ApiError."""
    answer = await admin.connection.ask(DescribeAclsRequest(*astuple(wanted)))
    check(answer.error_code, answer.error_message or "ACLs")
    return [
        Acl(each.resource_type, each.resource_name, each.pattern_type, *astuple(acl))
        for each in answer.resources
        for acl in each.acls
    ]


async def create_acls(admin: Admin, acls: Sequence[Acl]) -> None:
    """Create ACLs; those that exist stay. ApiError: the first one that is refused."""
    answer = await admin.connection.ask(CreateAclsRequest([AclCreation(*astuple(acl)) for acl in acls]))
    for result in answer.results:
        check(result.error_code, result.error_message or "the ACL is refused")


async def delete_acls(admin: Admin, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete the ACLs that the filters match, and return them. ApiError."""
    answer = await admin.connection.ask(DeleteAclsRequest([DeleteAclsFilter(*astuple(each)) for each in filters]))
    found: list[DeleteAclsMatchingAcl] = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message or "the filter is refused")
        found += result.matching_acls
    for acl in found:
        check(acl.error_code, acl.error_message or "the ACL is not deleted")
    return [acl_of(acl) for acl in found]
