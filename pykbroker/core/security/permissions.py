"""The permission that each API needs, one row for each API. An API without a row cannot be served.

Source: the table "Operations and Resources on Protocols" of Kafka's security documentation. DescribeCluster needs no
permission in Kafka's code.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.security.authorizer import CLUSTER_NAME, Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from wire.api import ApiKey

Right = tuple[Operation, ResourceType]


class ClusterRight(msgspec.Struct, frozen=True):
    """A right that a whole request needs: one of `operations` on the cluster, or `or_anywhere` on any resource.

    Versions below `version_first` do not need it, nor does a request that has a value in the field `unless`.
    """

    operations: tuple[Operation, ...]
    or_anywhere: Right | None = None
    version_first: int = 0
    unless: str | None = None

    def allows(self, authorizer: Authorizer, session: Session, request: Any) -> bool:
        """Whether the client may send this request."""
        if self.unless is not None and getattr(request, self.unless) is not None:
            return True
        for operation in self.operations:
            if authorizer.allows(session, operation, ResourceType.CLUSTER, CLUSTER_NAME):
                return True
        return self.or_anywhere is not None and authorizer.allows_somewhere(session, *self.or_anywhere)


class Permission(msgspec.Struct, frozen=True):
    """The rights that one API needs.

    `whole` is checked before the handler is called; a client without it gets CLUSTER_AUTHORIZATION_FAILED. `parts` is
    checked by the handler for each part of a request, such as a topic or a group; one of its rights is enough.
    """

    whole: ClusterRight | None = None
    parts: tuple[Right, ...] = ()


def whole(*operations: Operation) -> Permission:
    """Return the permission of an API whose requests need one of these operations on the cluster."""
    return Permission(ClusterRight(operations))


def parts(*rights: Right) -> Permission:
    """Return the permission of an API that needs one of these rights for each part of a request."""
    return Permission(parts=rights)


PERMISSIONS: dict[ApiKey, Permission] = {
    ApiKey.PRODUCE: parts((Operation.WRITE, ResourceType.TOPIC)),
    ApiKey.FETCH: parts((Operation.READ, ResourceType.TOPIC)),
    ApiKey.LIST_OFFSETS: parts((Operation.DESCRIBE, ResourceType.TOPIC)),
    ApiKey.METADATA: parts((Operation.DESCRIBE, ResourceType.TOPIC)),
    ApiKey.SASL_HANDSHAKE: Permission(),
    ApiKey.API_VERSIONS: Permission(),
    ApiKey.CREATE_TOPICS: parts((Operation.CREATE, ResourceType.CLUSTER), (Operation.CREATE, ResourceType.TOPIC)),
    ApiKey.DELETE_TOPICS: parts((Operation.DELETE, ResourceType.CLUSTER), (Operation.DELETE, ResourceType.TOPIC)),
    ApiKey.DELETE_RECORDS: parts((Operation.DELETE, ResourceType.TOPIC)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: parts(
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
    ApiKey.DESCRIBE_ACLS: whole(Operation.DESCRIBE),
    ApiKey.CREATE_ACLS: whole(Operation.ALTER),
    ApiKey.DELETE_ACLS: whole(Operation.ALTER),
    ApiKey.DESCRIBE_CONFIGS: parts(
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.GROUP),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: whole(Operation.ALTER),
    ApiKey.ALTER_CONFIGS: parts(
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        (Operation.ALTER_CONFIGS, ResourceType.GROUP),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: parts(
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        (Operation.ALTER_CONFIGS, ResourceType.GROUP),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: whole(Operation.DESCRIBE),
    ApiKey.SASL_AUTHENTICATE: Permission(),
    ApiKey.CREATE_PARTITIONS: parts((Operation.ALTER, ResourceType.TOPIC)),
    ApiKey.CREATE_DELEGATION_TOKEN: Permission(),
    ApiKey.RENEW_DELEGATION_TOKEN: Permission(),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Permission(),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Permission(),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: whole(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: whole(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: whole(Operation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: whole(Operation.ALTER),
    ApiKey.DESCRIBE_QUORUM: whole(Operation.DESCRIBE),
    ApiKey.INIT_PRODUCER_ID: Permission(
        ClusterRight(
            (Operation.IDEMPOTENT_WRITE,), or_anywhere=(Operation.WRITE, ResourceType.TOPIC), unless="transactional_id"
        ),
        parts=((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ),
    ApiKey.FIND_COORDINATOR: parts(
        (Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    ),
    ApiKey.JOIN_GROUP: parts((Operation.READ, ResourceType.GROUP)),
    ApiKey.SYNC_GROUP: parts((Operation.READ, ResourceType.GROUP)),
    ApiKey.HEARTBEAT: parts((Operation.READ, ResourceType.GROUP)),
    ApiKey.LEAVE_GROUP: parts((Operation.READ, ResourceType.GROUP)),
    ApiKey.OFFSET_COMMIT: parts((Operation.READ, ResourceType.GROUP)),
    ApiKey.OFFSET_FETCH: parts((Operation.DESCRIBE, ResourceType.GROUP)),
    ApiKey.OFFSET_DELETE: parts((Operation.DELETE, ResourceType.GROUP)),
    ApiKey.LIST_GROUPS: parts((Operation.DESCRIBE, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.GROUP)),
    ApiKey.DESCRIBE_GROUPS: parts((Operation.DESCRIBE, ResourceType.GROUP)),
    ApiKey.DELETE_GROUPS: parts((Operation.DELETE, ResourceType.GROUP)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: parts((Operation.READ, ResourceType.GROUP)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: parts((Operation.DESCRIBE, ResourceType.GROUP)),
    ApiKey.ELECT_LEADERS: whole(Operation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: whole(Operation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: whole(Operation.DESCRIBE),
    ApiKey.ADD_RAFT_VOTER: whole(Operation.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: whole(Operation.ALTER),
    ApiKey.UPDATE_FEATURES: whole(Operation.ALTER),
    ApiKey.UNREGISTER_BROKER: whole(Operation.ALTER),
    ApiKey.DESCRIBE_CLUSTER: Permission(),
    ApiKey.DESCRIBE_PRODUCERS: parts((Operation.READ, ResourceType.TOPIC)),
    ApiKey.LIST_CONFIG_RESOURCES: whole(Operation.DESCRIBE_CONFIGS),
    ApiKey.ADD_PARTITIONS_TO_TXN: Permission(
        ClusterRight((Operation.CLUSTER_ACTION,), version_first=4),
        parts=((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: parts((Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
    ApiKey.END_TXN: parts((Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
    ApiKey.WRITE_TXN_MARKERS: whole(Operation.ALTER, Operation.CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: parts((Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
    ApiKey.DESCRIBE_TRANSACTIONS: parts((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
    ApiKey.LIST_TRANSACTIONS: parts((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: parts((Operation.DESCRIBE, ResourceType.TOPIC)),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Permission(),
    ApiKey.PUSH_TELEMETRY: Permission(),
    ApiKey.ENVELOPE: whole(Operation.CLUSTER_ACTION),
    ApiKey.FETCH_SNAPSHOT: whole(Operation.CLUSTER_ACTION),
    ApiKey.ALTER_PARTITION: whole(Operation.CLUSTER_ACTION),
    ApiKey.BROKER_REGISTRATION: whole(Operation.CLUSTER_ACTION),
    ApiKey.BROKER_HEARTBEAT: whole(Operation.CLUSTER_ACTION),
    ApiKey.CONTROLLER_REGISTRATION: whole(Operation.CLUSTER_ACTION),
    ApiKey.ALLOCATE_PRODUCER_IDS: whole(Operation.CLUSTER_ACTION),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: whole(Operation.CLUSTER_ACTION),
}


def permitted(authorizer: Authorizer, session: Session, key: ApiKey, name: str) -> bool:
    """Whether the client has one of the API's rights, on the cluster or on the resource `name`."""
    for operation, resource in PERMISSIONS[key].parts:
        named = CLUSTER_NAME if resource is ResourceType.CLUSTER else name
        if authorizer.allows(session, operation, resource, named):
            return True
    return False
