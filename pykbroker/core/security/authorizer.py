"""The seam of an authorizer, and the one of a broker without ACLs."""

from __future__ import annotations

from typing import Protocol

from pykbroker.core.security.operation import SUPPORTED, Operation, ResourceType

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Authorizer(Protocol):
    """Decides; a name is a topic, group or transactional id, or CLUSTER_NAME."""

    def allows(self, principal: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """May `principal` do this?"""

    def allows_somewhere(self, principal: str, operation: Operation, resource: ResourceType) -> bool:
        """May `principal` do this to at least one resource of this type, there already or not?"""


class AllowAll:
    """No authorizer is configured: everybody may do everything."""

    def allows(self, principal: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Always."""
        return True

    def allows_somewhere(self, principal: str, operation: Operation, resource: ResourceType) -> bool:
        """Always."""
        return True


def authorized_operations(authorizer: Authorizer, principal: str, resource: ResourceType, name: str) -> int:
    """A bit for each operation that is allowed, as Metadata and DescribeCluster answer it (KIP-430)."""
    bits = 0
    for operation in SUPPORTED[resource]:
        if authorizer.allows(principal, operation, resource, name):
            bits |= 1 << operation
    return bits
