"""Filters of ACLs, as in DescribeAcls and DeleteAcls. Source: KIP-11, KIP-290, AclBindingFilter."""

from __future__ import annotations

import msgspec

from pykbroker.core.security.acl.acl import (
    ANY,
    UNKNOWN,
    UNKNOWN_NAME,
    WILDCARD,
    AclEntry,
    PatternType,
    PermissionType,
    name_of,
)
from pykbroker.core.security.operation import Operation, ResourceType


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

    def __call__(self, acl: AclEntry) -> bool:
        """Whether the filter matches the ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclEntry) -> bool:
        name = self.resource_name
        if self.pattern_type != PatternType.MATCH:
            return self.pattern_type in (ANY, acl.pattern_type) and name in (None, acl.resource_name)
        if name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)

    @property
    def is_unknown(self) -> bool:
        """Whether a field is UNKNOWN, for which Kafka closes the connection."""
        return UNKNOWN in (self.resource_type, self.pattern_type, self.operation, self.permission_type)

    @property
    def knows_pattern(self) -> bool:
        """Whether resource type and pattern type are ANY or known. Otherwise no ACL matches."""
        names = name_of(ResourceType, self.resource_type), name_of(PatternType, self.pattern_type)
        return UNKNOWN_NAME not in names

    @property
    def knows_entry(self) -> bool:
        """Whether operation and permission type are ANY or known. Otherwise no ACL matches."""
        names = name_of(Operation, self.operation), name_of(PermissionType, self.permission_type)
        return UNKNOWN_NAME not in names
