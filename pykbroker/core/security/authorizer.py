"""The authorizer's interface, and the authorizers of a broker without ACLs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import msgspec

from pykbroker.core.security.operation import SUPPORTED, Operation, ResourceType
from pykbroker.core.security.session import Session
from wire.api import ApiKey

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class Purpose(msgspec.Struct, frozen=True, gc=False):
    """The purpose of a decision, for the audit log.

    `api` is the API of the request. `grants` is whether the client gets access if the decision is positive, and
    `refuses` whether the client asked for the resource by name and gets an error if it is negative. A filter, such as
    the topics of a Metadata request for all topics, does not refuse; a bit field of allowed operations (KIP-430)
    neither grants nor refuses. These are `logIfAllowed` and `logIfDenied` of Kafka's `Action`.
    """

    api: ApiKey | None = None
    grants: bool = True
    refuses: bool = True


UNNAMED = Purpose()
"""The purpose of a decision whose caller does not name its API."""


class Authorizer(Protocol):
    """An authorizer. It decides by resource name: a topic, a group id, a transactional id, or CLUSTER_NAME.

    `purpose` and `count`, the number of times that the request names the resource, are for the audit log only.
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
        """Whether the client of `session` may perform the operation on this resource."""

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        """Whether the client of `session` may perform the operation on any resource of this type, existing or not."""

    def basis(self, session: Session) -> Hashable:
        """Return the facts about a session that decide on its rights. Sessions with an equal basis have equal rights.

        What is cached for clients is cached by it.
        """


class AllowAll:
    """The authorizer of a broker without ACLs: every operation is allowed."""

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        return True

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        return True

    def basis(self, session: Session) -> Hashable:
        return None


class AllowBrokersByListener:
    """The authorizer of a broker without ACLs where other brokers have a listener to themselves.

    Nobody is authenticated, so the listener alone distinguishes a broker from a client. CLUSTER_ACTION is allowed on
    the listener `of_brokers`, and every other operation on all listeners.
    """

    def __init__(self, of_brokers: str) -> None:
        self._of_brokers = of_brokers

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        return operation is not Operation.CLUSTER_ACTION or session.listener == self._of_brokers

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        return True

    def basis(self, session: Session) -> Hashable:
        return session.listener


def authorized_operations(authorizer: Authorizer, session: Session, resource: ResourceType, name: str) -> int:
    """Return a bit field of the allowed operations, as in the responses of Metadata and DescribeCluster (KIP-430)."""
    bits = 0
    for operation in SUPPORTED[resource]:
        if authorizer.allows(session, operation, resource, name):
            bits |= 1 << operation
    return bits


def cluster_operations(authorizer: Authorizer, session: Session) -> int:
    """Return the bit field of allowed operations on the cluster, or 0 if the client may not describe the cluster."""
    if not authorizer.allows(session, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(authorizer, session, ResourceType.CLUSTER, CLUSTER_NAME)
