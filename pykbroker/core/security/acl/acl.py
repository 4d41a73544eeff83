"""ACLs, numbered as in ACL messages and records. Source: KIP-11, KIP-290, StandardAcl."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import msgspec

from pykbroker.core.security.operation import Operation, ResourceType

WILDCARD = "*"
"""The name of every resource in a literal pattern, and every host in an ACL."""
EVERYONE = "User:*"
"""The principal of an ACL that applies to every client."""
UNKNOWN, ANY = 0, 1
"""The numbers in all enumerations of ACLs for a value that is not known, and for a filter that matches every value."""
UNKNOWN_NAME = "UNKNOWN"
"""Kafka's name of every number that it does not know."""


class PatternType(IntEnum):
    """The comparison of a resource's name with that of an ACL. Only a filter has MATCH."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an ACL denies or allows."""

    DENY = 2
    ALLOW = 3


class AclEntry(Protocol):
    """The fields that an ACL and its record share."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def pattern_type(self) -> int: ...

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def operation(self) -> int: ...

    @property
    def permission_type(self) -> int: ...


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


def acl_of(entry: AclEntry) -> Acl:
    """Return the ACL of a record."""
    return Acl(
        entry.resource_type,
        entry.resource_name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def name_of(kind: type[IntEnum], number: int) -> str:
    """Return Kafka's name of a number in an enumeration of ACLs."""
    if number == ANY:
        return "ANY"
    try:
        return kind(number).name
    except ValueError:
        return UNKNOWN_NAME


def order(acl: AclEntry) -> tuple[int | str, ...]:
    """Return the key by which ACLs are sorted where Kafka has the order of a hash table."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.operation,
        acl.principal,
        acl.host,
        acl.permission_type,
    )
