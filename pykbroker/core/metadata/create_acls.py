"""CreateAcls: validate each ACL of a request, and add those that do not exist yet (KIP-11, KIP-801).

Error messages are Kafka's. An ACL that exists is a success without a record. Kafka accepts every operation for every
resource type, and every text as host.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec.structs import asdict, astuple

from pykbroker.core.errors import ApiError, bad_request
from pykbroker.core.ids import new_id
from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.record import Record
from pykbroker.core.security.acl.acl import ANY, UNKNOWN_NAME, Acl, PatternType, PermissionType, name_of
from pykbroker.core.security.authorizer import CLUSTER_NAME
from pykbroker.core.security.operation import Operation, ResourceType
from wire.error_codes import ErrorCode
from wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from wire.stored.metadata_security import AccessControlEntryRecord


def create_acls(context: ControllerContext, request: CreateAclsRequest) -> Deciding:
    """Return the metadata records and the response.

    Raise ApiError UNKNOWN_SERVER_ERROR, as Kafka does, if an ACL has a number that only filters have.
    """
    if any(_is_filter(creation) for creation in request.creations):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    created: dict[Acl, Record] = {}
    results = []
    for creation in request.creations:
        yield
        try:
            _check(creation)
        except ApiError as error:
            results.append(AclCreationResult(error.code, error.message))
            continue
        acl = Acl(*astuple(creation))
        if acl not in context.draft.acl_counts and acl not in created:
            created[acl] = AccessControlEntryRecord(id=new_id(context.randomness), **asdict(acl))
        results.append(AclCreationResult())
    return list(created.values()), CreateAclsResponse(results=results)


def _is_filter(creation: AclCreation) -> bool:
    numbers = creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type
    return ANY in numbers or creation.resource_pattern_type == PatternType.MATCH


def _check(creation: AclCreation) -> None:
    """Raise ApiError INVALID_REQUEST if the ACL is invalid."""
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise bad_request(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise bad_request("Invalid empty resource name")
    _check_number("resourceType", ResourceType, creation.resource_type)
    _check_number("patternType", PatternType, creation.resource_pattern_type)
    _check_number("operation", Operation, creation.operation)
    _check_number("permissionType", PermissionType, creation.permission_type)
    if ":" not in creation.principal:
        raise bad_request(
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the principal type"
            " from the principal name)"
        )


def _check_number(field: str, kind: type[IntEnum], number: int) -> None:
    if name_of(kind, number) == UNKNOWN_NAME:
        raise bad_request(f"Invalid {field} {UNKNOWN_NAME}")
