"""The operation and resource type that each API needs, one row for an API. An API without a row cannot be served.

Source: the table "Operations and Resources on Protocols" of Kafka's security documentation.
"""

from __future__ import annotations

from pykbroker.core.security.authorizer import CLUSTER_NAME, Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from wire.api import ApiKey

Needs = tuple[tuple[Operation, ResourceType], ...]
"""Any of the pairs suffices if an API has several. An API with none needs no permission."""

PERMISSIONS: dict[ApiKey, Needs] = {
    ApiKey.PRODUCE: ((Operation.WRITE, ResourceType.TOPIC),),
    ApiKey.FETCH: ((Operation.READ, ResourceType.TOPIC),),
    ApiKey.LIST_OFFSETS: ((Operation.DESCRIBE, ResourceType.TOPIC),),
    ApiKey.METADATA: ((Operation.DESCRIBE, ResourceType.TOPIC),),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.CREATE_TOPICS: ((Operation.CREATE, ResourceType.CLUSTER), (Operation.CREATE, ResourceType.TOPIC)),
    ApiKey.DELETE_TOPICS: ((Operation.DELETE, ResourceType.TOPIC),),
    ApiKey.DELETE_RECORDS: ((Operation.DELETE, ResourceType.TOPIC),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
        (Operation.DESCRIBE, ResourceType.TOPIC),
    ),
    ApiKey.DESCRIBE_ACLS: ((Operation.DESCRIBE, ResourceType.CLUSTER),),
    ApiKey.CREATE_ACLS: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.DELETE_ACLS: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.DESCRIBE_CONFIGS: (
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.GROUP),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.ALTER_CONFIGS: (
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        (Operation.ALTER_CONFIGS, ResourceType.GROUP),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        (Operation.ALTER_CONFIGS, ResourceType.GROUP),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: ((Operation.DESCRIBE, ResourceType.CLUSTER),),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.CREATE_PARTITIONS: ((Operation.ALTER, ResourceType.TOPIC),),
    ApiKey.CREATE_DELEGATION_TOKEN: (),
    ApiKey.RENEW_DELEGATION_TOKEN: (),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
    ApiKey.ALTER_CLIENT_QUOTAS: ((Operation.ALTER_CONFIGS, ResourceType.CLUSTER),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ((Operation.DESCRIBE, ResourceType.CLUSTER),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.DESCRIBE_QUORUM: ((Operation.DESCRIBE, ResourceType.CLUSTER),),
    ApiKey.INIT_PRODUCER_ID: (
        (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        (Operation.WRITE, ResourceType.TOPIC),
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    ),
    ApiKey.FIND_COORDINATOR: (
        (Operation.DESCRIBE, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    ),
    ApiKey.JOIN_GROUP: ((Operation.READ, ResourceType.GROUP),),
    ApiKey.SYNC_GROUP: ((Operation.READ, ResourceType.GROUP),),
    ApiKey.HEARTBEAT: ((Operation.READ, ResourceType.GROUP),),
    ApiKey.LEAVE_GROUP: ((Operation.READ, ResourceType.GROUP),),
    ApiKey.OFFSET_COMMIT: ((Operation.READ, ResourceType.GROUP),),
    ApiKey.OFFSET_FETCH: ((Operation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.OFFSET_DELETE: ((Operation.DELETE, ResourceType.GROUP),),
    ApiKey.LIST_GROUPS: ((Operation.DESCRIBE, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.GROUP)),
    ApiKey.DESCRIBE_GROUPS: ((Operation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.DELETE_GROUPS: ((Operation.DELETE, ResourceType.GROUP),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ((Operation.READ, ResourceType.GROUP),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((Operation.DESCRIBE, ResourceType.GROUP),),
    ApiKey.ELECT_LEADERS: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ((Operation.DESCRIBE, ResourceType.CLUSTER),),
    ApiKey.ADD_RAFT_VOTER: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.REMOVE_RAFT_VOTER: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.UPDATE_FEATURES: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.UNREGISTER_BROKER: ((Operation.ALTER, ResourceType.CLUSTER),),
    ApiKey.DESCRIBE_CLUSTER: ((Operation.DESCRIBE, ResourceType.CLUSTER),),
    ApiKey.DESCRIBE_PRODUCERS: ((Operation.READ, ResourceType.TOPIC),),
    ApiKey.LIST_CONFIG_RESOURCES: ((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
    ApiKey.ADD_PARTITIONS_TO_TXN: ((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.ADD_OFFSETS_TO_TXN: ((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.END_TXN: ((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.WRITE_TXN_MARKERS: (
        (Operation.ALTER, ResourceType.CLUSTER),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
    ApiKey.TXN_OFFSET_COMMIT: ((Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.DESCRIBE_TRANSACTIONS: ((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.LIST_TRANSACTIONS: ((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ((Operation.DESCRIBE, ResourceType.TOPIC),),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (),
    ApiKey.PUSH_TELEMETRY: (),
}


def permitted(authorizer: Authorizer, session: Session, key: ApiKey, name: str = "") -> bool:
    """Whether the client has one of the API's permissions, on the cluster or on the resource `name`."""
    needs = PERMISSIONS[key]
    for operation, resource in needs:
        named = CLUSTER_NAME if resource is ResourceType.CLUSTER else name
        if authorizer.allows(session, operation, resource, named):
            return True
    return not needs
