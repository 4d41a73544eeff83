"""The rights that requests need: one row for each part of an API that needs one. An API without an entry is not served.

A handler asks by a row: `allowed` for many names, `may` for one, and `require` if the answer is an error. A row that is
marked as `first` is asked by `server.guard`, before the handler of the API is called.

Source: the behaviour of Kafka's KafkaApis and ControllerApis, from which the table "Operations and Resources on
Protocols" of its documentation differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from functools import cache
from types import NoneType
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError, default_error
from pykbroker.core.security.authorizer import CLUSTER_NAME, DenyClusterAction
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import UNNAMED, Authorizer, Purpose, Session
from pykbroker.core.steps import Steps, finish
from wire.api import ApiKey
from wire.error_codes import ErrorCode

Names = TypeVar("Names", bound=Collection[str])

CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error for a client that lacks a right on a resource of each type."""


WITHOUT_MESSAGE = (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
"""The APIs of whole requests whose refusal has no message in Kafka."""


class Denial(Enum):
    """The answer to a client that lacks a right. The text, which documents it, has a place for the error code."""

    PART = "{}"
    WHOLE = "{} for the whole request"
    LEFT_OUT = "it is left out"


class Need(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An operation on a resource of a type: the resource that a request names, or any at all (`anywhere`)."""

    operation: Operation
    resource: ResourceType
    anywhere: bool = False
    purpose: Purpose = UNNAMED

    def granted(self, session: Session, authorizer: Authorizer, name: str, count: int) -> bool:
        """Whether the client may perform the operation on the resource, which a request names `count` times."""
        if self.anywhere:
            return authorizer.allows_somewhere(session, self.operation, self.resource, self.purpose)
        return authorizer.allows(session, self.operation, self.resource, name, self.purpose, count)


class Right(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The right that one part of an API's requests needs: any of the `needs`, which are asked in their order."""

    api: ApiKey
    part: str
    needs: Sequence[Need]
    denial: Denial
    code: ErrorCode
    first: bool
    of_brokers: bool
    """Whether only brokers need the right: CLUSTER_ACTION."""


Decisions = dict[tuple[Need, str], bool]


class Request(Protocol):
    """The context of a request, as far as a right depends on it."""

    session: Session
    decisions: Decisions | None
    """The decisions for this request so far. The authorizer is not asked again, since it logs each decision."""


def allowed(context: Request, right: Right, names: Names) -> Names | dict[str, None]:
    """Return those of the names for which the client has the right, each once and in their order.

    Without an authorizer, return `names` itself.
    """
    return names if context.session.authorizer is None else finish(allowed_in_steps(context, right, names))


def allowed_in_steps(context: Request, right: Right, names: Names) -> Steps[Names | dict[str, None]]:
    """Return what `allowed` returns, with one decision in each step: 10,000 decisions among 10,000 ACLs take 0.1 s."""
    if context.session.authorizer is None:
        return names
    found = dict[str, None]()
    for name, count in Counter(iter(names)).items():  # of a mapping, it would copy the values
        if _granted(context, right, name, count):
            found[name] = None
        yield
    return found


class _Asking(msgspec.Struct):
    """The context of a question that outlives its request, and that is decided anew."""

    session: Session
    decisions: Decisions | None = None


def asked_later(context: Request, right: Right) -> Callable[[Collection[str]], Collection[str]] | None:
    """Return a function that decides about names as `allowed` does, each time anew; None if all names are allowed."""
    session = context.session
    return (lambda names: allowed(_Asking(session), right, names)) if has_acls(context) else None


def has_acls(context: Request) -> bool:
    """Whether rights of the client may depend on the names of resources, so that each name must be asked for."""
    return type(context.session.authorizer) not in (NoneType, DenyClusterAction)


def may(context: Request, right: Right, name: str = CLUSTER_NAME) -> bool:
    """Whether the client has the right for the resource `name`."""
    return context.session.authorizer is None or _granted(context, right, name)


def require(context: Request, right: Right, name: str = CLUSTER_NAME) -> None:
    """Raise ApiError with the error of the right if the client does not have it for the resource `name`."""
    if context.session.authorizer is not None and not _granted(context, right, name):
        has_message = right.first and right.api not in WITHOUT_MESSAGE
        raise default_error(right.code) if has_message else ApiError(right.code)


def _granted(context: Request, right: Right, name: str, count: int = 1) -> bool:
    session = context.session
    authorizer = session.authorizer
    assert authorizer is not None
    if type(authorizer) is DenyClusterAction:  # a short cut for clients of a broker without ACLs
        return not right.of_brokers
    if context.decisions is None:
        context.decisions = {}
    for need in right.needs:
        asked = need, CLUSTER_NAME if need.resource is CLUSTER else name
        granted = context.decisions.get(asked)
        if granted is None:
            granted = context.decisions[asked] = need.granted(session, authorizer, asked[1], count)
        if granted:
            return True
    return False


def require_for_config(context: Request, rights: dict[int, Right], resource: tuple[int, str]) -> None:
    """Raise ApiError if the client lacks the right for a config resource, given as its type and its name.

    For an unknown type every client has it, so that every client gets the same error.
    """
    kind, name = resource
    if kind in rights and not may(context, rights[kind], name):
        raise default_error(rights[kind].code)


# ---- the table

RIGHTS: dict[ApiKey, list[Right]] = {}
"""The rows of each API that is served. An API whose list is empty may be used by everybody."""

PART, WHOLE, LEFT_OUT = Denial
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

READ_TOPIC = Need(Operation.READ, TOPIC)
WRITE_TOPIC = Need(Operation.WRITE, TOPIC)
WRITE_SOME_TOPIC = Need(Operation.WRITE, TOPIC, anywhere=True)
CREATE_TOPIC = Need(Operation.CREATE, TOPIC)
DELETE_TOPIC = Need(Operation.DELETE, TOPIC)
ALTER_TOPIC = Need(Operation.ALTER, TOPIC)
DESCRIBE_TOPIC = Need(Operation.DESCRIBE, TOPIC)
DESCRIBE_TOPIC_CONFIGS = Need(Operation.DESCRIBE_CONFIGS, TOPIC)
READ_GROUP = Need(Operation.READ, GROUP)
DELETE_GROUP = Need(Operation.DELETE, GROUP)
DESCRIBE_GROUP = Need(Operation.DESCRIBE, GROUP)
CREATE_IN_CLUSTER = Need(Operation.CREATE, CLUSTER)
DELETE_IN_CLUSTER = Need(Operation.DELETE, CLUSTER)
ALTER_CLUSTER = Need(Operation.ALTER, CLUSTER)
DESCRIBE_CLUSTER = Need(Operation.DESCRIBE, CLUSTER)
CLUSTER_ACTION = Need(Operation.CLUSTER_ACTION, CLUSTER)
IDEMPOTENT_WRITE = Need(Operation.IDEMPOTENT_WRITE, CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Need(Operation.DESCRIBE_CONFIGS, CLUSTER)
ALTER_CLUSTER_CONFIGS = Need(Operation.ALTER_CONFIGS, CLUSTER)
WRITE_TRANSACTIONAL_ID = Need(Operation.WRITE, TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Need(Operation.DESCRIBE, TRANSACTIONAL_ID)


def row(
    api: ApiKey, part: str, *needs: Need, denial: Denial = PART, code: ErrorCode | None = None, first: bool = False
) -> Right:
    """Add a row to the table. Without `code`, the error is that of the resource type of the last need."""
    audited = denial is not LEFT_OUT
    asked = [  # a client is refused after the last need
        _with_purpose(need, Purpose(api, refuses=audited and need is needs[-1])) for need in needs
    ]
    right = Right(
        api,
        part,
        asked,
        denial,
        code=CODES[needs[-1].resource] if code is None else code,
        first=first,
        of_brokers=all(need.operation is Operation.CLUSTER_ACTION for need in needs),
    )
    RIGHTS.setdefault(api, []).append(right)
    return right


@cache
def _with_purpose(need: Need, purpose: Purpose) -> Need:
    """Return the need with its purpose: the same for all rows of an API, which then share a decision."""
    return replace(need, purpose=purpose)


def whole(need: Need, *apis: ApiKey) -> None:
    """Add rows of APIs all of whose requests need a right on the cluster, and nothing else."""
    for api in apis:
        row(api, "every request", need, denial=WHOLE, first=True)


def config_rows(api: ApiKey, operation: Operation) -> dict[int, Right]:
    """Add the rows of an API of configs, and return them by type of config resource."""
    on_cluster = row(api, "each resource of another type", Need(operation, CLUSTER))
    return {
        ConfigResource.TOPIC: row(api, "each topic", Need(operation, TOPIC)),
        ConfigResource.GROUP: row(api, "each group", Need(operation, GROUP)),
        ConfigResource.BROKER: on_cluster,
        ConfigResource.BROKER_LOGGER: on_cluster,
        ConfigResource.CLIENT_METRICS: on_cluster,
    }


# records
PRODUCE_TRANSACTION = row(
    ApiKey.PRODUCE, "the transactional id, if a batch is transactional", WRITE_TRANSACTIONAL_ID, denial=WHOLE
)
PRODUCE_TOPIC = row(ApiKey.PRODUCE, "each topic", WRITE_TOPIC)
FETCH_AS_FOLLOWER = row(
    ApiKey.FETCH, "a replica id", CLUSTER_ACTION, denial=WHOLE, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
)
FETCH_METADATA_LOG = row(ApiKey.FETCH, "the metadata log", CLUSTER_ACTION, denial=WHOLE)
FETCH_TOPIC = row(ApiKey.FETCH, "each topic", READ_TOPIC)
LIST_OFFSETS_TOPIC = row(ApiKey.LIST_OFFSETS, "each topic", DESCRIBE_TOPIC)
LIST_OFFSETS_AS_FOLLOWER = row(
    ApiKey.LIST_OFFSETS, "offsets above the high watermark, for a replica id", CLUSTER_ACTION, denial=LEFT_OUT
)
OFFSET_FOR_LEADER_EPOCH_TOPIC = row(ApiKey.OFFSET_FOR_LEADER_EPOCH, "each topic", CLUSTER_ACTION, DESCRIBE_TOPIC)
DELETE_RECORDS_TOPIC = row(ApiKey.DELETE_RECORDS, "each topic", DELETE_TOPIC)
DESCRIBE_PRODUCERS_TOPIC = row(ApiKey.DESCRIBE_PRODUCERS, "each topic", READ_TOPIC)

# topics
METADATA_TOPIC = row(ApiKey.METADATA, "each requested topic", DESCRIBE_TOPIC)
METADATA_ALL_TOPICS = row(ApiKey.METADATA, "each topic, if all are requested", DESCRIBE_TOPIC, denial=LEFT_OUT)
METADATA_CREATION = row(ApiKey.METADATA, "each missing topic, if it is to be created", CREATE_IN_CLUSTER, CREATE_TOPIC)
METADATA_CLUSTER_OPERATIONS = row(
    ApiKey.METADATA, "the operations on the cluster that are allowed", DESCRIBE_CLUSTER, denial=LEFT_OUT
)
DESCRIBE_TOPIC_PARTITIONS_TOPIC = row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "each requested topic", DESCRIBE_TOPIC)
DESCRIBE_TOPIC_PARTITIONS_ALL_TOPICS = row(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, "each topic, if all are requested", DESCRIBE_TOPIC, denial=LEFT_OUT
)
CREATE_TOPICS_TOPIC = row(ApiKey.CREATE_TOPICS, "each topic", CREATE_IN_CLUSTER, CREATE_TOPIC)
CREATE_TOPICS_CONFIGS = row(
    ApiKey.CREATE_TOPICS, "the configs and counts of each created topic", DESCRIBE_TOPIC_CONFIGS, denial=LEFT_OUT
)
DELETE_TOPICS_NAME = row(
    ApiKey.DELETE_TOPICS, "the name of each topic, and whether it exists", DELETE_IN_CLUSTER, DESCRIBE_TOPIC
)
DELETE_TOPICS_TOPIC = row(ApiKey.DELETE_TOPICS, "each topic", DELETE_IN_CLUSTER, DELETE_TOPIC)
CREATE_PARTITIONS_TOPIC = row(ApiKey.CREATE_PARTITIONS, "each topic", ALTER_TOPIC)
whole(ALTER_CLUSTER, ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
whole(DESCRIBE_CLUSTER, ApiKey.LIST_PARTITION_REASSIGNMENTS)

# groups
FIND_COORDINATOR_GROUP = row(ApiKey.FIND_COORDINATOR, "each group", DESCRIBE_GROUP)
FIND_COORDINATOR_TRANSACTION = row(ApiKey.FIND_COORDINATOR, "each transactional id", DESCRIBE_TRANSACTIONAL_ID)
FIND_COORDINATOR_SHARE = row(
    ApiKey.FIND_COORDINATOR, "partitions of share groups, in version 6", CLUSTER_ACTION, denial=WHOLE
)
JOIN_GROUP = row(ApiKey.JOIN_GROUP, "the group", READ_GROUP, denial=WHOLE)
JOIN_GROUP_PATTERN = row(
    ApiKey.JOIN_GROUP, "each topic that matches a regular expression of the group", DESCRIBE_TOPIC, denial=LEFT_OUT
)
SYNC_GROUP = row(ApiKey.SYNC_GROUP, "the group", READ_GROUP, denial=WHOLE)
HEARTBEAT = row(ApiKey.HEARTBEAT, "the group", READ_GROUP, denial=WHOLE)
LEAVE_GROUP = row(ApiKey.LEAVE_GROUP, "the group", READ_GROUP, denial=WHOLE)
OFFSET_COMMIT_GROUP = row(ApiKey.OFFSET_COMMIT, "the group", READ_GROUP, denial=WHOLE)
OFFSET_COMMIT_TOPIC = row(ApiKey.OFFSET_COMMIT, "each topic", READ_TOPIC)
OFFSET_FETCH_GROUP = row(ApiKey.OFFSET_FETCH, "each group", DESCRIBE_GROUP)
OFFSET_FETCH_TOPIC = row(ApiKey.OFFSET_FETCH, "each requested topic", DESCRIBE_TOPIC)
OFFSET_FETCH_ALL_TOPICS = row(ApiKey.OFFSET_FETCH, "each topic, if all are requested", DESCRIBE_TOPIC, denial=LEFT_OUT)
OFFSET_DELETE_GROUP = row(ApiKey.OFFSET_DELETE, "the group", DELETE_GROUP, denial=WHOLE)
OFFSET_DELETE_TOPIC = row(ApiKey.OFFSET_DELETE, "each topic", READ_TOPIC)
CONSUMER_GROUP_HEARTBEAT_GROUP = row(ApiKey.CONSUMER_GROUP_HEARTBEAT, "the group", READ_GROUP, denial=WHOLE)
CONSUMER_GROUP_HEARTBEAT_TOPIC = row(
    ApiKey.CONSUMER_GROUP_HEARTBEAT, "each topic that is subscribed to by name", DESCRIBE_TOPIC, denial=WHOLE
)
CONSUMER_GROUP_HEARTBEAT_PATTERN = row(
    ApiKey.CONSUMER_GROUP_HEARTBEAT, "each topic that matches a regular expression", DESCRIBE_TOPIC, denial=LEFT_OUT
)
CONSUMER_GROUP_DESCRIBE_GROUP = row(ApiKey.CONSUMER_GROUP_DESCRIBE, "each group", DESCRIBE_GROUP)
CONSUMER_GROUP_DESCRIBE_TOPIC = row(
    ApiKey.CONSUMER_GROUP_DESCRIBE, "each group, for all topics of its members", DESCRIBE_TOPIC
)
LIST_GROUPS_GROUP = row(ApiKey.LIST_GROUPS, "each group", DESCRIBE_CLUSTER, DESCRIBE_GROUP, denial=LEFT_OUT)
DESCRIBE_GROUPS_GROUP = row(ApiKey.DESCRIBE_GROUPS, "each group", DESCRIBE_GROUP)
DELETE_GROUPS_GROUP = row(ApiKey.DELETE_GROUPS, "each group", DELETE_GROUP)

# transactions
INIT_PRODUCER_ID_TRANSACTION = row(
    ApiKey.INIT_PRODUCER_ID, "the transactional id", WRITE_TRANSACTIONAL_ID, denial=WHOLE
)
INIT_PRODUCER_ID_IDEMPOTENT = row(
    ApiKey.INIT_PRODUCER_ID,
    "a request without transactional id",
    IDEMPOTENT_WRITE,
    WRITE_SOME_TOPIC,
    denial=WHOLE,
    code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
ADD_PARTITIONS_TO_TXN_TRANSACTION = row(
    ApiKey.ADD_PARTITIONS_TO_TXN, "the transactional id, in versions 0-3", WRITE_TRANSACTIONAL_ID, denial=WHOLE
)
ADD_PARTITIONS_TO_TXN_TOPIC = row(ApiKey.ADD_PARTITIONS_TO_TXN, "each topic, in versions 0-3", WRITE_TOPIC)
ADD_PARTITIONS_TO_TXN_BROKER = row(
    ApiKey.ADD_PARTITIONS_TO_TXN, "every request of versions 4-5", CLUSTER_ACTION, denial=WHOLE
)
ADD_OFFSETS_TO_TXN_TRANSACTION = row(
    ApiKey.ADD_OFFSETS_TO_TXN, "the transactional id", WRITE_TRANSACTIONAL_ID, denial=WHOLE
)
ADD_OFFSETS_TO_TXN_GROUP = row(ApiKey.ADD_OFFSETS_TO_TXN, "the group", READ_GROUP, denial=WHOLE)
TXN_OFFSET_COMMIT_TRANSACTION = row(
    ApiKey.TXN_OFFSET_COMMIT, "the transactional id", WRITE_TRANSACTIONAL_ID, denial=WHOLE
)
TXN_OFFSET_COMMIT_GROUP = row(ApiKey.TXN_OFFSET_COMMIT, "the group", READ_GROUP, denial=WHOLE)
TXN_OFFSET_COMMIT_TOPIC = row(ApiKey.TXN_OFFSET_COMMIT, "each topic", READ_TOPIC)
END_TXN = row(ApiKey.END_TXN, "the transactional id", WRITE_TRANSACTIONAL_ID, denial=WHOLE)
row(ApiKey.WRITE_TXN_MARKERS, "every request", ALTER_CLUSTER, CLUSTER_ACTION, denial=WHOLE, first=True)
DESCRIBE_TRANSACTIONS_TRANSACTION = row(
    ApiKey.DESCRIBE_TRANSACTIONS, "each transactional id", DESCRIBE_TRANSACTIONAL_ID
)
DESCRIBE_TRANSACTIONS_TOPIC = row(
    ApiKey.DESCRIBE_TRANSACTIONS, "each topic of a transaction", DESCRIBE_TOPIC, denial=LEFT_OUT
)
LIST_TRANSACTIONS_TRANSACTION = row(
    ApiKey.LIST_TRANSACTIONS, "each transactional id", DESCRIBE_TRANSACTIONAL_ID, denial=LEFT_OUT
)

# configs
DESCRIBE_CONFIGS = config_rows(ApiKey.DESCRIBE_CONFIGS, Operation.DESCRIBE_CONFIGS)
ALTER_CONFIGS = config_rows(ApiKey.ALTER_CONFIGS, Operation.ALTER_CONFIGS)
del ALTER_CONFIGS[ConfigResource.BROKER_LOGGER]  # the API does not know this type, and refuses it for all clients
INCREMENTAL_ALTER_CONFIGS = config_rows(ApiKey.INCREMENTAL_ALTER_CONFIGS, Operation.ALTER_CONFIGS)
whole(DESCRIBE_CLUSTER_CONFIGS, ApiKey.LIST_CONFIG_RESOURCES, ApiKey.DESCRIBE_CLIENT_QUOTAS)
whole(ALTER_CLUSTER_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS)

# the cluster
DESCRIBE_CONTROLLERS = row(
    ApiKey.DESCRIBE_CLUSTER, "every request to a controller", CLUSTER_ACTION, ALTER_CLUSTER, denial=WHOLE
)
DESCRIBE_CLUSTER_OPERATIONS = row(
    ApiKey.DESCRIBE_CLUSTER, "the operations on the cluster that are allowed", DESCRIBE_CLUSTER, denial=LEFT_OUT
)
whole(
    DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)
whole(
    ALTER_CLUSTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
whole(
    CLUSTER_ACTION,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.ALTER_PARTITION,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
)

RIGHTS.update(
    {
        api: []
        for api in (
            ApiKey.API_VERSIONS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            ApiKey.PUSH_TELEMETRY,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
        )
    }
)
