"""AlterConfigs and IncrementalAlterConfigs: dynamic configs of topics, brokers, groups and client metrics (KIP-339).

1. A resource is changed completely or not at all; the other resources of the request succeed.
2. All configs that the resource would have after the change are validated, not only the changed ones.
3. A config that keeps its value writes no record. The exception is a broker's config: for Kafka's brokers the record is
   a request to reload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from pykbroker.core.config.check import TABLES
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.config.type import Type, refuse, text_of
from pykbroker.core.errors import ApiError, bad_request
from pykbroker.core.metadata.context import ELR_FEATURE, ControllerContext, Deciding
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.replay import EVERY_TOPIC
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.messages import alter_configs as whole
from wire.messages import incremental_alter_configs as incremental
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from wire.stored.metadata_settings import ConfigRecord
from wire.stored.metadata_topics import ClearElrRecord

Changes = Mapping[str, str | None]
"""New values by name; None unsets a config."""

MIN_ISR = "min.insync.replicas"
REPEATED = "Each resource must appear at most once."
VALUE_BYTES_MAX = 32_767
"""The longest string that the protocol can carry."""

LISTS = (ConfigResource.TOPIC, ConfigResource.BROKER)
"""Resource types with list configs that APPEND and SUBTRACT can change."""

AlteredResource = whole.AlterConfigsResource | incremental.AlterConfigsResource
AlteredResourceResponse = whole.AlterConfigsResourceResponse | incremental.AlterConfigsResourceResponse


class AlterConfigOp(IntEnum):
    """The operation of an incremental change; APPEND and SUBTRACT apply to lists only."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def alter_configs(context: ControllerContext, request: AlterConfigsRequest) -> Deciding:
    """Return the metadata records and the response of AlterConfigs. Each resource gets exactly the given configs."""
    records, results = yield from _alter(context, request.resources)
    responses = [whole.AlterConfigsResourceResponse(*result) for result in results]
    return [] if request.validate_only else records, AlterConfigsResponse(responses=responses)


def incremental_alter_configs(context: ControllerContext, request: IncrementalAlterConfigsRequest) -> Deciding:
    """Return the metadata records and the response of IncrementalAlterConfigs.

    Configs that the request does not name stay unchanged.
    """
    records, results = yield from _alter(context, request.resources)
    responses = [incremental.AlterConfigsResourceResponse(*result) for result in results]
    return [] if request.validate_only else records, IncrementalAlterConfigsResponse(responses=responses)


AlterConfigResult = tuple[ErrorCode, str | None, int, str]
"""The result of one resource, with the fields of both responses."""


def key_of(one: AlteredResource | AlteredResourceResponse) -> tuple[int, str]:
    """Return the type and the name of a resource, from its part of a request or a response."""
    return one.resource_type, one.resource_name


def changes_of(old: Mapping[str, str], resource: AlteredResource) -> Changes:
    """Return the changes of a resource with the configs `old`. Raise ApiError if they are no changes."""
    return _replaced(old, resource) if isinstance(resource, whole.AlterConfigsResource) else _increments(old, resource)


def altered(old: Mapping[str, str], changes: Changes) -> dict[str, str]:
    """Return the configs after the changes."""
    return {name: value for name, value in {**old, **changes}.items() if value is not None}


def _alter(
    context: ControllerContext, resources: Sequence[AlteredResource]
) -> Steps[tuple[list[Record], list[AlterConfigResult]]]:
    times = Counter(map(key_of, resources))
    records: list[Record] = []
    results: list[AlterConfigResult] = []
    for resource in resources:
        key = key_of(resource)
        try:
            if times[key] > 1:
                raise bad_request(REPEATED)
            records += _change(context, resource)
            results.append((ErrorCode.NONE, None, *key))
        except ApiError as error:
            results.append((error.code, error.message, *key))
        yield
    return records + _clearings(context, records), results


def _change(context: ControllerContext, resource: AlteredResource) -> list[Record]:
    """Return the records that change one resource. Raise ApiError if it cannot be changed."""
    key = key_of(resource)
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise bad_request("Error due to duplicate config keys")
    if key[0] not in TABLES:
        raise bad_request(f"Unknown resource type {key[0]}")
    old = context.draft.config(key)
    changes = changes_of(old, resource)
    context.configs.check(key, altered(old, changes), context.dynamic)
    _check_min_isr(context, key, changes)
    _check_exists(context, key)
    return [
        ConfigRecord(resource_type=key[0], resource_name=key[1], name=name, value=value)
        for name, value in changes.items()
        # A record makes brokers of Kafka reload a key store, even if its path is the same (KAFKA-14136).
        if key[0] == ConfigResource.BROKER or value != old.get(name)
    ]


def _replaced(old: Mapping[str, str], resource: whole.AlterConfigsResource) -> Changes:
    """Return the changes after which the resource has exactly the configs of the request."""
    _check_nulls(config.name for config in resource.configs if config.value is None)
    new = {config.name: config.value for config in resource.configs}
    return {**new, **{name: None for name in old if name not in new}}


def _increments(old: Mapping[str, str], resource: incremental.AlterConfigsResource) -> Changes:
    """Return the changes that the request's operations make."""
    _check_nulls(
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != AlterConfigOp.DELETE
    )
    return {config.name: _operated(old, resource.resource_type, config) for config in resource.configs}


def _operated(old: Mapping[str, str], kind: int, config: incremental.AlterableConfig) -> str | None:
    match config.config_operation:
        case AlterConfigOp.SET:
            return config.value
        case AlterConfigOp.DELETE:
            return None
        case AlterConfigOp.APPEND | AlterConfigOp.SUBTRACT:
            return _listed(old, kind, config)
    raise bad_request(f"Unknown operations type {config.config_operation}")


def _listed(old: Mapping[str, str], kind: int, config: incremental.AlterableConfig) -> str:
    """Return the list after APPEND or SUBTRACT. A list that is not set begins with Kafka's default value."""
    name, operation = config.name, AlterConfigOp(config.config_operation)
    row = TABLES[kind].get(name)
    if row is None or row.type is not Type.LIST or kind not in LISTS:
        raise _not_a_list(kind, name, operation, known=row is not None)
    words = [word for word in (old[name] if name in old else text_of(row.default) or "").split(",") if word]
    for word in _split(config.value or ""):
        if operation is AlterConfigOp.APPEND and word not in words:
            words.append(word)
        elif operation is AlterConfigOp.SUBTRACT and word in words:
            words.remove(word)
    value = ",".join(words)
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise refuse(f"The value of {name} would be longer than {VALUE_BYTES_MAX} bytes")
    return value


def _split(text: str) -> list[str]:
    """Return the words as Java's `split` does: trailing empty words are dropped, an empty text has one empty word."""
    return text.rstrip(",").split(",") if text.rstrip(",") or not text else []


def _not_a_list(kind: int, name: str, operation: AlterConfigOp, *, known: bool) -> ApiError:
    if kind != ConfigResource.BROKER:
        return refuse(f"Can't {operation.name} to key {name} because its type is not LIST.")
    if known:
        return refuse(f"Config value {operation.name.lower()} is not allowed for config key: {name}")
    return refuse(f"Unknown config name: {name}")


def _check_nulls(names: Iterable[str]) -> None:
    if found := list(names):
        raise bad_request(f"Null value not supported for : {', '.join(found)}")


def _check_min_isr(context: ControllerContext, key: tuple[int, str], changes: Changes) -> None:
    """Raise ApiError for a cluster-wide removal or a per-broker setting of min.insync.replicas while ELR is enabled."""
    if key[0] != ConfigResource.BROKER or MIN_ISR not in changes or not context.feature(ELR_FEATURE):
        return
    if key[1]:
        raise refuse("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise refuse("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")


def _check_exists(context: ControllerContext, key: tuple[int, str]) -> None:
    """Raise ApiError for a topic that does not exist.

    Groups and client metrics subscriptions need not exist before their configs.
    """
    if key[0] == ConfigResource.TOPIC and key[1] not in context.draft.names:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{key[1]}' does not exist.")


def _clearings(context: ControllerContext, records: list[Record]) -> list[Record]:
    """Return the records that clear the ELR of topics whose min.insync.replicas changes."""
    if not context.feature(ELR_FEATURE):
        return []
    topics = [record.resource_name for record in records if isinstance(record, ConfigRecord) and record.name == MIN_ISR]
    return (
        [ClearElrRecord(topic_name=EVERY_TOPIC)]
        if "" in topics
        else [ClearElrRecord(topic_name=topic) for topic in topics]
    )
