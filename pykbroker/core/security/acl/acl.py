"""ACLs, numbered as in ACL messages and records, and filters of them. Source: KIP-11, KIP-290, StandardAcl."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from pykbroker.core.security.operation import Operation, ResourceType

WILDCARD = "*"
"""The name of every resource in a literal pattern, and every host in an ACL."""
EVERYONE = "User:*"
"""The principal of an ACL that applies to every client."""
UNKNOWN, ANY = 0, 1
"""The numbers in all enumerations of ACLs for a value that is not known, and for a filter that matches every value."""


class PatternType(IntEnum):
    """The comparison of a resource's name with that of an ACL. Only a filter has MATCH."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an ACL denies or allows."""

    DENY = 2
    ALLOW = 3


class Acl(msgspec.Struct, frozen=True, gc=False):
    """An ACL. Numbers are those of the record, so that an ACL of a later version of Kafka is kept as it is."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        """Return the text that Kafka's audit log has."""
        return (
            f"StandardAcl[resourceType={name_of(ResourceType, self.resource_type)}, resourceName={self.resource_name},"
            f" patternType={name_of(PatternType, self.pattern_type)}, principal={self.principal}, host={self.host},"
            f" operation={name_of(Operation, self.operation)},"
            f" permissionType={name_of(PermissionType, self.permission_type)}]"
        )


def name_of(kind: type[IntEnum], number: int) -> str:
    """Return Kafka's name of a number in an enumeration of ACLs."""
    if number == ANY:
        return "ANY"
    try:
        return kind(number).name
    except ValueError:
        return "UNKNOWN"


class AclFilter(msgspec.Struct, frozen=True):
    """A filter of ACLs. None, and the number ANY, match every value.

    A name is compared with the name of the ACL's resource, whatever its pattern, unless the pattern type is MATCH: the
    filter then matches each ACL that applies to a resource of this name.
    """

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, acl: Acl) -> bool:
        """Whether the filter matches the ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type != PatternType.MATCH:
            return self.pattern_type in (ANY, acl.pattern_type) and name in (None, acl.resource_name)
        if name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)
