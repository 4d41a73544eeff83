"""A request of each API for resources that a client may use and others that it may not, some of which do not exist.

None of the requests changes what a later one is answered, apart from the topics that DeleteTopics may delete.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.security.rights import RIGHTS
from wire.api import ApiKey
from wire.apis import APIS, Api
from wire.declare import Request
from wire.messages.find_coordinator import CoordinatorType
from wire.records.builder import BatchBuilder
from wire.schema import Type, fields_of

OPEN, SHUT = "open", "shut"
"""A resource that exists and on which principals have their right, and one on which they have none."""
NO_OPEN, NO_SHUT = "no open", "no shut"
"""The same for resources that do not exist, and of which no topic can be made: a topic has no space in its name."""
NAMES = (OPEN, SHUT, NO_OPEN, NO_SHUT)
DOOMED, KEPT = "doomed", "kept"
"""Topics like `OPEN` and `SHUT` that are created again after each request that deletes them."""
NEW = "new"
"""A topic that requests ask to create without creating it."""
PRODUCER_ID = 7
"""A producer id that no transactional id has."""
SOME_MS = 9000
ALIASES = {"name", "topic", "topic_id", "partition", "partition_index", "index", "partitions", "partition_indexes"}
"""The fields of topics and partitions, of which each API has some."""

WITHOUT_ACKS = "PRODUCE acks=0"
"""The case whose request has no response."""
VERSIONS = {
    "METADATA all": (1, 13),
    "METADATA creating": (4, 13),
    "METADATA ids": (10, 13),
    "DELETE_TOPICS ids": (6, 6),
    "OFFSET_FETCH all": (2, 10),
    "FIND_COORDINATOR group of shut": (0, 3),
    "FIND_COORDINATOR transaction": (1, 6),
    "FIND_COORDINATOR share": (1, 6),
    "FIND_COORDINATOR unknown": (1, 6),
    "FIND_COORDINATOR transaction of shut": (1, 3),
    "ADD_PARTITIONS_TO_TXN open to open": (0, 3),  # Kafka never answers later versions without a transaction
    "ADD_PARTITIONS_TO_TXN shut to open": (0, 3),
}
"""The first and the last version of cases that not all versions of the API have."""

Fields = Mapping[str, Any]


@cache
def batch(*, transactional: bool) -> bytes:
    """Return a record batch with one record."""
    producer_id, sequence = (PRODUCER_ID, 0) if transactional else (-1, -1)
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=sequence, base_sequence=sequence, transactional=transactional
    )
    builder.append(b"k", b"v", timestamp=1_700_000_000_000)
    return builder.build()


def requests(ids: Mapping[str, bytes]) -> dict[str, Fields]:
    """Return the fields of requests, in all versions, by name of the API and, after a space, of the case.

    `ids` are the topic ids.
    """

    def topics(*names: str, **fields: Any) -> list[Fields]:
        partition = {"partition": 0, "partition_index": 0, "index": 0, **fields}
        of = {"partitions": [partition], "partition_indexes": [0]}
        return [{"name": name, "topic": name, "topic_id": ids[name], **of} for name in names]

    def plain(*names: str) -> list[Fields]:
        return [{**topic, "partitions": [0]} for topic in topics(*names)]

    return {
        **_of_records(topics, plain),
        **_of_topics(ids, topics, plain),
        **_of_groups(topics),
        **_of_transactions(topics, plain),
        **_of_configs(),
        **_of_cluster(plain),
        **_of_security(),
        **_invalid(topics, plain),
    }


def _of_records(topics: Any, plain: Any) -> dict[str, Fields]:
    produced = topics(*NAMES, records=batch(transactional=False))
    produced = [{**topic, "partition_data": topic["partitions"]} for topic in produced]
    begun = topics(OPEN, SHUT, records=batch(transactional=True))
    begun = [{**topic, "partition_data": topic["partitions"]} for topic in begun]
    fetch = {"max_wait_ms": 0, "max_bytes": 1, "topics": topics(*NAMES, partition_max_bytes=1)}
    return {
        "PRODUCE": {"acks": -1, "timeout_ms": SOME_MS, "topic_data": produced},
        WITHOUT_ACKS: {"acks": 0, "timeout_ms": SOME_MS, "topic_data": produced[:1]},
        **{
            f"PRODUCE transaction {name}": {
                "transactional_id": name,
                "acks": -1,
                "timeout_ms": SOME_MS,
                "topic_data": begun,
            }
            for name in (OPEN, SHUT)
        },
        "FETCH": {**fetch, "replica_id": -1},
        "FETCH replica": {**fetch, "replica_id": 7, "replica_state": {"replica_id": 7}},
        "LIST_OFFSETS": {"replica_id": -1, "topics": topics(*NAMES, timestamp=-1)},
        "OFFSET_FOR_LEADER_EPOCH": {"replica_id": -1, "topics": topics(*NAMES)},
        "DELETE_RECORDS": {"topics": topics(*NAMES, offset=0), "timeout_ms": SOME_MS},
        "DESCRIBE_PRODUCERS": {"topics": plain(*NAMES)},
    }


def _of_topics(ids: Mapping[str, bytes], topics: Any, plain: Any) -> dict[str, Fields]:
    named = [{"name": name} for name in NAMES]
    operations = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    creations = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (NEW, OPEN, SHUT)]
    wider = [{"name": name, "count": 9, "assignments": None} for name in NAMES]
    deletions = [{"name": name} for name in (DOOMED, KEPT, NO_OPEN, NO_SHUT)]
    by_id = [{"name": None, "topic_id": ids[name]} for name in (DOOMED, KEPT, NO_OPEN)]
    return {
        "METADATA": {"topics": named, "allow_auto_topic_creation": False, **operations},
        "METADATA creating": {"topics": named, "allow_auto_topic_creation": True},
        "METADATA ids": {"topics": [{"name": None, "topic_id": ids[name]} for name in NAMES]},
        "METADATA all": {"topics": None, **operations},
        "DESCRIBE_TOPIC_PARTITIONS": {"topics": named},
        "DESCRIBE_TOPIC_PARTITIONS all": {"topics": []},
        "CREATE_TOPICS": {"topics": creations, "timeout_ms": SOME_MS, "validate_only": True},
        "DELETE_TOPICS": {
            "topics": deletions,
            "topic_names": [topic["name"] for topic in deletions],
            "timeout_ms": SOME_MS,
        },
        "DELETE_TOPICS ids": {"topics": by_id, "timeout_ms": SOME_MS},
        "CREATE_PARTITIONS": {"topics": wider, "timeout_ms": SOME_MS, "validate_only": True},
        "ELECT_LEADERS": {"topic_partitions": plain(*NAMES), "timeout_ms": SOME_MS},
        "ALTER_PARTITION_REASSIGNMENTS": {"timeout_ms": SOME_MS, "topics": topics(NO_OPEN)},
        "LIST_PARTITION_REASSIGNMENTS": {"timeout_ms": SOME_MS, "topics": topics(OPEN)},
    }


def _of_groups(topics: Any) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for name in (OPEN, SHUT):
        member = {"group_id": name, "member_id": "m"}
        consumer = {**member, "member_epoch": 9, "rebalance_timeout_ms": SOME_MS, "topic_partitions": []}
        committed = topics(*NAMES, committed_offset=3)
        found |= {
            f"JOIN_GROUP {name}": {
                **member,
                "session_timeout_ms": SOME_MS,
                "rebalance_timeout_ms": SOME_MS,
                "protocol_type": "consumer",
                "protocols": [{"name": "range"}],
            },
            f"SYNC_GROUP {name}": member,
            f"HEARTBEAT {name}": member,
            f"LEAVE_GROUP {name}": {**member, "members": [{"member_id": "m"}]},
            f"OFFSET_COMMIT {name}": {
                "group_id": name,
                "generation_id_or_member_epoch": -1,
                "retention_time_ms": -1,
                "topics": committed,
            },
            f"OFFSET_FETCH {name}": {
                "group_id": name,
                "topics": topics(*NAMES),
                "groups": [{"group_id": name, "topics": topics(*NAMES)}],
            },
            f"OFFSET_DELETE {name}": {"group_id": name, "topics": topics(NO_OPEN, NO_SHUT)},
            f"CONSUMER_GROUP_HEARTBEAT {name}": {**consumer, "subscribed_topic_names": [OPEN]},
            f"CONSUMER_GROUP_HEARTBEAT {name} to {SHUT}": {**consumer, "subscribed_topic_names": [OPEN, SHUT]},
        }
    kinds = {
        kind: f"FIND_COORDINATOR {kind.name.lower()}" for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION)
    }
    return {
        **found,
        **{
            f"{title}{'' if name == OPEN else ' of ' + name}": {
                "key_": name,
                "key_type": kind,
                "coordinator_keys": NAMES,
            }
            for kind, title in kinds.items()
            for name in (OPEN, SHUT)
        },
        "OFFSET_FETCH all": {
            "group_id": OPEN,
            "topics": None,
            "groups": [{"group_id": name, "topics": None} for name in NAMES],
        },
        "LIST_GROUPS": {},
        "DESCRIBE_GROUPS": {"groups": NAMES, "include_authorized_operations": True},
        "CONSUMER_GROUP_DESCRIBE": {"group_ids": NAMES, "include_authorized_operations": True},
        "DELETE_GROUPS": {"groups_names": [NO_OPEN, NO_SHUT]},
    }


def _of_transactions(topics: Any, plain: Any) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for name in (OPEN, SHUT):
        transaction = {"transactional_id": name, "producer_id": PRODUCER_ID, "producer_epoch": 0}
        before = {f"v3_and_below_{field}": value for field, value in transaction.items()}
        found |= {
            f"INIT_PRODUCER_ID {name}": {
                "transactional_id": name,
                "transaction_timeout_ms": SOME_MS,
                "producer_id": -1,
                "producer_epoch": -1,
            },
            f"ADD_PARTITIONS_TO_TXN {name}": {
                **before,
                "v3_and_below_topics": plain(*NAMES),
                "transactions": [{**transaction, "verify_only": True, "topics": plain(*NAMES)}],
            },
            f"ADD_PARTITIONS_TO_TXN {name} to {OPEN}": {**before, "v3_and_below_topics": plain(OPEN)},
            f"END_TXN {name}": transaction,
        }
        for group in (OPEN, SHUT):
            whose = {**transaction, "group_id": group}
            found |= {
                f"ADD_OFFSETS_TO_TXN {name} for {group}": whose,
                f"TXN_OFFSET_COMMIT {name} for {group}": {
                    **whose,
                    "generation_id": -1,
                    "topics": topics(*NAMES, committed_offset=3),
                },
            }
    return {
        **found,
        "INIT_PRODUCER_ID": {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
        "WRITE_TXN_MARKERS": {"markers": [{"producer_id": PRODUCER_ID, "topics": topics(NO_OPEN)}]},
        "DESCRIBE_TRANSACTIONS": {"transactional_ids": NAMES},
        "LIST_TRANSACTIONS": {"duration_filter": -1},
    }


def _of_configs() -> dict[str, Fields]:
    named = {
        ConfigResource.TOPIC: NAMES,
        ConfigResource.GROUP: NAMES,
        ConfigResource.BROKER: ("1",),
        ConfigResource.CLIENT_METRICS: (OPEN,),
    }
    resources = [{"resource_type": kind, "resource_name": name} for kind, names in named.items() for name in names]
    change = {"resources": resources, "validate_only": True}
    quota = {"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": [{"key": "producer_byte_rate"}]}
    return {
        "DESCRIBE_CONFIGS": {"resources": [{**each, "configuration_keys": None} for each in resources]},
        "ALTER_CONFIGS": change,
        "INCREMENTAL_ALTER_CONFIGS": change,
        "LIST_CONFIG_RESOURCES": {},
        "DESCRIBE_CLIENT_QUOTAS": {"components": [{"entity_type": "user", "match_type": 0, "match": "u"}]},
        "ALTER_CLIENT_QUOTAS": {
            "entries": [{**quota, "ops": [{"key": "producer_byte_rate", "value": 1.0}]}],
            "validate_only": True,
        },
    }


def _of_cluster(plain: Any) -> dict[str, Fields]:
    partition = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    return {
        "DESCRIBE_CLUSTER": {"include_cluster_authorized_operations": True, "endpoint_type": 1},
        "DESCRIBE_LOG_DIRS": {"topics": plain(OPEN)},
        "DESCRIBE_QUORUM": {"topics": [partition]},
        "ALTER_REPLICA_LOG_DIRS": {"dirs": [{"path": "/nowhere", "topics": plain(OPEN, NO_OPEN)}]},
        "UNREGISTER_BROKER": {"broker_id": 77},
        "UPDATE_FEATURES": {"feature_updates": [{"feature": "none", "max_version_level": 1}], "validate_only": True},
        "ADD_RAFT_VOTER": {"cluster_id": None, "voter_id": 2},
        "REMOVE_RAFT_VOTER": {"cluster_id": None, "voter_id": 2},
        **{key.name: {} for key in RIGHTS if APIS[key].advertised is None},
        "API_VERSIONS": {"client_software_name": "raw", "client_software_version": "1"},
    }


def _of_security() -> dict[str, Fields]:
    acl = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    any_acl = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
    twice = {**acl, "resource_name": OPEN, "principal": "User:read-topic", "host": "*"}
    return {
        "DESCRIBE_ACLS": {**any_acl, "resource_name_filter": NO_SHUT},
        "CREATE_ACLS": {"creations": [twice, {**acl, "principal": "", "host": "*", "resource_name": OPEN}]},
        "DELETE_ACLS": {"filters": [{**any_acl, "resource_name_filter": NO_SHUT}]},
        "DESCRIBE_USER_SCRAM_CREDENTIALS": {"users": [{"name": "u"}]},
        "ALTER_USER_SCRAM_CREDENTIALS": {"deletions": [{"name": "u", "mechanism": 1}]},
        "SASL_HANDSHAKE": {"mechanism": "PLAIN"},
        "SASL_AUTHENTICATE": {},
        "CREATE_DELEGATION_TOKEN": {},
        "RENEW_DELEGATION_TOKEN": {},
        "EXPIRE_DELEGATION_TOKEN": {},
        "DESCRIBE_DELEGATION_TOKEN": {"owners": None},
    }


def _invalid(topics: Any, plain: Any) -> dict[str, Fields]:
    """Return requests that are invalid for a client with all rights, too: they show which of the two comes first."""
    named = {"topics": [{"name": name} for name in NAMES]}
    creations = [{"name": name, "num_partitions": 0, "replication_factor": 9} for name in NAMES]
    produced = topics(*NAMES, records=batch(transactional=False))
    produced = [{**topic, "partition_data": topic["partitions"]} for topic in produced]
    unknown = {"resources": [{"resource_type": 99, "resource_name": OPEN}]}
    subscribed = {"subscribed_topic_names": [SHUT], "topic_partitions": []}
    repeated = [{"resource_type": ConfigResource.TOPIC, "resource_name": name} for name in (OPEN, OPEN, SHUT, SHUT)]
    stranger = {"group_id": OPEN, "member_id": "m", "generation_id_or_member_epoch": 5, "topics": topics(*NAMES)}
    timeout = {"timeout_ms": SOME_MS}
    return {
        "PRODUCE acks=2": {"acks": 2, "topic_data": produced, **timeout},
        "CREATE_TOPICS without partitions": {"topics": creations, **timeout},
        "DELETE_RECORDS internal": {"topics": [{"name": GROUP_METADATA_TOPIC, "partitions": [{}]}], **timeout},
        "DESCRIBE_TOPIC_PARTITIONS cursor": {**named, "cursor": {"topic_name": OPEN, "partition_index": -1}},
        "ELECT_LEADERS unknown": {"topic_partitions": plain(*NAMES), "election_type": 7, **timeout},
        f"OFFSET_COMMIT {OPEN} of a stranger": stranger,
        "JOIN_GROUP none": {"protocol_type": "consumer", "protocols": [{"name": "range"}], "member_id": "m"},
        "HEARTBEAT none": {"member_id": "m"},
        "CONSUMER_GROUP_DESCRIBE none": {"group_ids": [""]},
        "CONSUMER_GROUP_HEARTBEAT none": {"member_id": "m", "member_epoch": 9, **subscribed},
        "FIND_COORDINATOR share": {"key_": OPEN, "key_type": CoordinatorType.SHARE, "coordinator_keys": NAMES},
        "FIND_COORDINATOR unknown": {"key_": OPEN, "key_type": 9, "coordinator_keys": NAMES},
        f"INIT_PRODUCER_ID {SHUT} without epoch": {"transactional_id": SHUT, "producer_id": 7, "producer_epoch": -1},
        "END_TXN none": {"producer_id": PRODUCER_ID},
        "DESCRIBE_TRANSACTIONS none": {"transactional_ids": [""]},
        "DESCRIBE_CONFIGS unknown": unknown,
        "ALTER_CONFIGS unknown": unknown,
        "INCREMENTAL_ALTER_CONFIGS unknown": unknown,
        "INCREMENTAL_ALTER_CONFIGS twice": {"resources": repeated},
        "INCREMENTAL_ALTER_CONFIGS logger": {"resources": [{"resource_type": ConfigResource.BROKER_LOGGER}]},
    }


def api_of(case: str) -> Api:
    """Return the API of a case."""
    return APIS[ApiKey[case.split()[0]]]


def versions_of(case: str) -> range:
    """Return the versions in which a case is sent."""
    accepted = api_of(case).accepted
    first, last = VERSIONS.get(case, (accepted.first, accepted.last))
    return range(first, last + 1)


def request(case: str, version: int, fields: Fields) -> Request[Any]:
    """Return a request with those of the fields that the version has."""
    made: Request[Any] = _struct(api_of(case).request, version, fields)
    return made


def _struct(cls: type[msgspec.Struct], version: int, fields: Fields) -> Any:
    known = {field.name: field for field in fields_of(cls)}
    if unknown := fields.keys() - known.keys() - ALIASES:
        raise KeyError(f"{cls.__name__} has no fields {unknown}")
    given = {name: value for name, value in fields.items() if name in known and version in known[name].versions}
    return cls(**{name: _value(known[name].type, version, value) for name, value in given.items()})


def _value(of: Type, version: int, value: Any) -> Any:
    if value is None:
        return None
    if of.struct:
        return _struct(of.struct, version, value)
    if of.item:
        return [_value(of.item, version, each) for each in value]
    return value
