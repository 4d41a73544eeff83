"""ACLs as sentences and as rows of a table."""

from __future__ import annotations

from pykbroker.cli.tables import cell_text
from pykbroker.core.security.acl.acl import Acl, PatternType, PermissionType, name_of
from pykbroker.core.security.acl.words import resource_text
from pykbroker.core.security.operation import Operation, ResourceType


def sentence(acl: Acl) -> str:
    """Return an ACL as a sentence. Control characters are escaped: anybody who may create ACLs has chosen them."""
    verb = "may" if acl.permission_type == PermissionType.ALLOW else "must not"
    where = "" if acl.host == "*" else f" from {acl.host}"
    is_prefix = acl.pattern_type == PatternType.PREFIXED
    on = resource_text(acl.resource_type, acl.resource_name, is_prefix=is_prefix)
    return cell_text(f"{acl.principal} {verb} {operation_text(acl.operation)} {on}{where}")


def operation_text(operation: int) -> str:
    """Return an operation as the verb of a sentence."""
    return "do anything with" if operation == Operation.ALL else name_of(Operation, operation)


def row(acl: Acl) -> tuple[str, ...]:
    """Return the row of an ACL."""
    return (
        acl.principal,
        name_of(PermissionType, acl.permission_type),
        name_of(Operation, acl.operation),
        name_of(ResourceType, acl.resource_type),
        acl.resource_name,
        name_of(PatternType, acl.pattern_type),
        acl.host,
    )
