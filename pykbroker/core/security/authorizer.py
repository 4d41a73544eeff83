"""The authorizer of a broker without ACLs, and the operations that an authorizer allows on one resource."""

from __future__ import annotations

from collections.abc import Hashable

from pykbroker.core.security.operation import SUPPORTED, Operation, ResourceType
from pykbroker.core.security.session import UNNAMED, Purpose, Session
from wire.api import ApiKey

LACKS_CLUSTER_ACTION = (
    "the user of this broker may not act for the cluster: add it to super.users of the other nodes, or allow it"
    " CLUSTER_ACTION on the cluster by an ACL"
)
"""The reason why another node refuses a request that only brokers send, and what to do."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class DenyClusterAction:
    """The authorizer of a broker without ACLs, on every listener but that of its fellow brokers.

    The listener alone distinguishes a broker from a client. Every operation but CLUSTER_ACTION is allowed.
    """

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        return operation is not Operation.CLUSTER_ACTION

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        return operation is not Operation.CLUSTER_ACTION

    def basis(self, session: Session) -> Hashable:
        return None

    def logs_allowed(self) -> bool:
        return False


def authorized_operations(session: Session, api: ApiKey, resource: ResourceType, name: str) -> int:
    """Return a bit field of the allowed operations, as in the responses of Metadata and DescribeCluster (KIP-430).

    As in Kafka, it has all operations if there are no ACLs, also those that only brokers may perform.
    """
    operations, authorizer = SUPPORTED[resource], session.authorizer
    if authorizer is not None and not isinstance(authorizer, DenyClusterAction):
        purpose = Purpose(api, grants=False, refuses=False)
        operations = tuple(one for one in operations if authorizer.allows(session, one, resource, name, purpose))
    return sum(1 << operation for operation in operations)


def cluster_operations(session: Session, api: ApiKey) -> int:
    """Return the bit field of the allowed operations on the cluster."""
    return authorized_operations(session, api, ResourceType.CLUSTER, CLUSTER_NAME)
