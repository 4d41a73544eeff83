"""DeleteAcls: delete the ACLs that the filters of a request match (KIP-11, KIP-290).

Every filter is compared with the ACLs before the request, so that the results of two filters may have the same ACL.
"""

from __future__ import annotations

from msgspec.structs import asdict, astuple

from pykbroker.core.errors import bad_request
from pykbroker.core.metadata.context import RECORDS_MAX, ControllerContext, Deciding
from pykbroker.core.metadata.record import Record
from pykbroker.core.security.acl.acl import acl_of, order
from pykbroker.core.security.acl.filter import AclFilter
from wire.error_codes import ErrorCode
from wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from wire.messages.describe_acls import DescribeAclsRequest
from wire.stored.metadata_security import RemoveAccessControlEntryRecord


def delete_acls(context: ControllerContext, request: DeleteAclsRequest) -> Deciding:
    """Return the metadata records and the response.

    Raise ApiError INVALID_REQUEST if the filters match more than `RECORDS_MAX` ACLs.
    """
    removals: dict[bytes, Record] = {}
    results = []
    for wanted in request.filters:
        matches = filter_of(wanted)
        if not matches.knows_pattern or not matches.knows_entry:
            unknown = "entryFilter" if matches.knows_pattern else "patternFilter"
            results.append(DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, f"Unknown {unknown}."))
            continue
        matching = []
        for acl_id, acl in context.draft.acls.items():
            if matches(acl):
                if len(removals) >= RECORDS_MAX:
                    raise bad_request(f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation.")
                removals[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
                matching.append(acl)
            yield
        matching.sort(key=order)
        matched = [DeleteAclsMatchingAcl(error_message=None, **asdict(acl_of(acl))) for acl in matching]
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matched))
    return list(removals.values()), DeleteAclsResponse(filter_results=results)


def filter_of(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter in a request."""
    return AclFilter(*astuple(wanted))
