"""The response to a request that is refused as a whole: the same error at the top level and in every result.

It is derived from the fields of the request and the response, and compiled on first use for each API and version. If
only a part of a request is refused, `merge` adds the results of this part to the response.

1. A result is about an item of a list of the request. The list has the same name, or a row in `FIELDS` names it.
2. A response or a result with an error code of its own in this version has results only if it has a row.
3. The fields in `NAMES` are copied from the item. All other fields have their defaults, or a constant from the row.
4. A message is that of the refusal, unless `MESSAGES` has the API.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import NIL, Request, Response
from wire.error_codes import ErrorCode
from wire.schema import Field, Type, fields_of
from wire.source import Source


class OfTopics(Protocol):
    """A response with a result for each topic."""

    topics: list[Any]


R = TypeVar("R", bound=Response)
T = TypeVar("T", bound=OfTopics)

CODES = ("error_code", "partition_error_code")
TOPIC_NAMES = ("name", "topic", "topic_name")
PARTITION_NAMES = ("partition_index", "partition", "partition_id", "index")
OTHER_NAMES = (
    "topic_id",
    "resource_type",
    "resource_name",
    "entity_type",
    "entity_name",
    "group_id",
    "key",
    "transactional_id",
    "producer_id",
)
NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(TOPIC_NAMES, TOPIC_NAMES),
    **dict.fromkeys(PARTITION_NAMES, PARTITION_NAMES),
    **{name: (name,) for name in OTHER_NAMES},
}
"""The fields that say which item a result is about, each with the fields of the item that may have the value."""

FIELDS: Mapping[ApiKey, Mapping[str, Any]] = {
    ApiKey.PRODUCE: {"responses": "topic_data", "partition_responses": "partition_data", "base_offset": -1},
    ApiKey.FETCH: {"responses": "topics", "high_watermark": -1, "aborted_transactions": None, "records": b""},
    ApiKey.METADATA: {"topics": "topics"},
    ApiKey.OFFSET_FETCH: {"groups": "groups", "partitions": "partition_indexes", "committed_offset": -1},
    ApiKey.FIND_COORDINATOR: {"coordinators": "coordinator_keys", "node_id": -1, "port": -1},
    ApiKey.JOIN_GROUP: {"member_id": "member_id", "protocol_name": None},
    ApiKey.DELETE_TOPICS: {"responses": "topics topic_names"},
    ApiKey.DELETE_RECORDS: {"low_watermark": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "results_by_topic_v3_and_below": "v3_and_below_topics",
        "results_by_partition": "partitions",
    },
    ApiKey.WRITE_TXN_MARKERS: {"partitions": "partition_indexes"},
    ApiKey.CREATE_ACLS: {"results": "creations"},
    ApiKey.DELETE_ACLS: {"filter_results": "filters"},
    ApiKey.DESCRIBE_CONFIGS: {"results": "resources"},
    ApiKey.ALTER_CONFIGS: {"responses": "resources"},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"results": "dirs.topics"},
    ApiKey.CREATE_PARTITIONS: {"results": "topics"},
    ApiKey.DELETE_GROUPS: {"results": "groups_names"},
    ApiKey.ELECT_LEADERS: {"replica_election_results": "topic_partitions", "partition_result": "partitions"},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"responses": "resources"},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"responses": "topics"},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": "topics", "partitions": "partition_indexes"},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},  # an empty list would mean that no quota matched
    ApiKey.ALTER_CLIENT_QUOTAS: {"entity": "entity"},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"results": "users"},  # without names, as in Kafka
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"results": "deletions upsertions", "user": "name"},
    ApiKey.DESCRIBE_PRODUCERS: {"partitions": "partition_indexes"},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transaction_states": "transactional_ids"},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"groups": "group_ids"},
}
"""The fields of a response that cannot be derived: a constant, or the field of the request that has the value.

Of several lists, all items are answered, each name once. A dot leads to the lists inside the items of a list.
"""

NO_MESSAGE, OF_CODE = "None", "code.message"
MESSAGES: Mapping[ApiKey, str] = {
    **dict.fromkeys(
        (ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.CONSUMER_GROUP_DESCRIBE),
        NO_MESSAGE,
    ),
    **dict.fromkeys(
        (
            ApiKey.FIND_COORDINATOR,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
        ),
        OF_CODE,
    ),
    ApiKey.UNREGISTER_BROKER: f"message or {OF_CODE}",
}
"""The messages of APIs, as expressions, that are not those with which requests are refused."""


def refusal(request: Request[R], version: int, code: ErrorCode, message: str | None = None) -> R:
    """Return the response that refuses the request. Without a `message`, most APIs have null."""
    response: R = _compiled(type(request), version)(request, code, message)
    return response


def merge(response: T, refused: Iterable[Any]) -> Generator[None, None, T]:
    """Add the results of refused topics to a response, and return it. A topic with results in both gets one.

    Yield after each topic, since a request may name many.
    """
    known = {(topic.name, getattr(topic, "topic_id", NIL)): topic for topic in response.topics}
    for topic in refused:
        first = known.setdefault((topic.name, getattr(topic, "topic_id", NIL)), topic)
        if first is topic:
            response.topics.append(topic)
        else:
            first.partitions += topic.partitions
        yield
    return response


@cache
def _compiled(request: type[Request[Any]], version: int) -> Callable[..., Any]:
    row, message = FIELDS.get(request.key, {}), MESSAGES.get(request.key, "message")
    writer = _Writer(APIS[request.key].response, version, row, message)
    return writer.function(Type(struct=request))


def _each_once(*lists: Iterable[Any]) -> Iterable[Any]:
    return {one.name: one for items in lists for one in items}.values()


class _Writer:
    """The source of the function for one API and version. `row` and `message` are those of the API in the tables."""

    def __init__(self, response: type[Response], version: int, row: Mapping[str, Any], message: str) -> None:
        self._response, self._version, self._row, self._message = response, version, row, message
        self._source = Source(response, version)
        self._source.globals["each_once"] = _each_once

    def function(self, request: Type) -> Callable[..., Any]:
        """Compile and return the function."""
        self._source.add(f"return {self._new(self._response, request, 'request')}")
        return self._source.build("def refuse(request, code, message):")

    def _new(self, cls: type[msgspec.Struct], of: Type, item: str) -> str:
        """Return an expression for a result about `item`, which is an expression of the type `of`."""
        fields = self._fields(cls)
        has_code = any(field.name in CODES for field in fields)
        values = {field.name: self._value(field, of, item, has_code=has_code) for field in fields}
        arguments = ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)
        return f"{self._source.constant(cls)}({arguments})"

    def _value(self, field: Field, of: Type, item: str, *, has_code: bool) -> str | None:
        """Return an expression for the value of a field, or None for its default.

        `has_code` is true if the message of the field has an error code of its own.
        """
        row = self._row.get(field.name, "")
        if field.name in CODES:
            return "code"
        if field.name == "error_message":
            return self._message
        if not isinstance(row, str):
            return None if row is None and self._version not in field.nullable else self._source.constant(row)
        if field.type.item is not None and field.type.item.struct is not None:
            implied = _has_code(field.type.item.struct) and not has_code
            return self._results(field.type.item.struct, of, item, row or (field.name if implied else ""))
        names = (row,) if row else NAMES.get(field.name, ()) if item != "request" else ()
        if of.struct is None:
            return item if names and field.type == of else None
        for given in self._fields(of.struct):
            if given.name in names and given.type == field.type:
                has_null = given.optional and given.nullable != field.nullable  # where the response allows none
                return f"{item}.{given.name} or ''" if has_null else f"{item}.{given.name}"
        return None

    def _results(self, result: type[msgspec.Struct], of: Type, item: str, path: str) -> str | None:
        """Return an expression for a list with a result for each item of the lists at `path`."""
        clauses = ""
        for step in path.split("."):
            lists = [one for one in self._fields(of.struct) if one.name in step.split() and one.type.item]
            if not lists:
                return None
            sources = [f"{item}.{one.name} or ()" for one in lists]
            source = f"each_once({', '.join(sources)})" if len(sources) > 1 else sources[0]
            clauses += f" for {item}_ in {source}"
            of, item = lists[0].type.item or of, f"{item}_"
        return f"[{self._new(result, of, item)}{clauses}]"

    def _fields(self, cls: type[msgspec.Struct] | None) -> list[Field]:
        return [] if cls is None else [field for field in fields_of(cls) if self._version in field.versions]


def _has_code(cls: type[msgspec.Struct]) -> bool:
    """Whether a result has an error code, or has a list of results that do."""
    of_lists = [field.type.item.struct for field in fields_of(cls) if field.type.item and field.type.item.struct]
    return any(field.name in CODES for field in fields_of(cls)) or any(map(_has_code, of_lists))
