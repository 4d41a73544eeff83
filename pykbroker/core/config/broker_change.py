"""Validation of dynamic broker configs, for one broker or as the cluster-wide default (KIP-226).

Unknown configs are accepted, as in Kafka, because they may belong to plugins of other brokers. Configs without effect
here, such as numbers of threads, follow Kafka's rules too, because a Kafka broker may read this metadata log later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykbroker.core.config.config import BrokerConfig, Texts, read_resolved
from pykbroker.core.config.java_classes import check_no_classes
from pykbroker.core.config.listener_change import OF_ALL_LISTENERS, STORES, check_listener_change
from pykbroker.core.config.providers import has_variable, may_have_variables, resolve
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.config.row import Row, Update
from pykbroker.core.config.table import BROKER, BROKER_QUOTAS, LISTENER_PREFIX, listener_row
from pykbroker.core.config.type import INTEGER, Value
from pykbroker.core.errors import ApiError, bad_request

THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Thread counts. One change may at most halve or double them."""

NEVER_ZERO = ("max.connections", "max.connection.creation.rate")
"""Configs that may not be 0, since no client could then connect to change them back."""

NOT_SET = -2
"""The value of a local retention config that selects the total retention."""


def check_broker_change(name: str, wanted: Texts, broker: BrokerConfig) -> None:
    """Raise ApiError for configs that broker `name` cannot have. The name "" is the cluster-wide default.

    `broker` is the config of this broker. Of another broker's configs only the names and each value are checked, since
    its other configs are unknown here. So are those of this broker if they have variables, and `broker` no sources of
    them. The error is INVALID_REQUEST, as in Kafka. A config that names a Java class, which Kafka would load, gets
    INVALID_CONFIG. A variable may stand for a number only if the provider of the variable is also a dynamic config of
    `name`.
    """
    of_this = not name or is_this(name, broker.node_id)
    is_known = of_this and (broker.sources is not None or not may_have_variables(wanted, broker.cluster, broker.broker))
    refuse_any(
        "Cannot update these configs dynamically",
        (config for config in wanted if config in BROKER and BROKER[config].update is Update.READ_ONLY),
    )
    refuse_any(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (config for config in wanted if config in STORES),
    )
    known = (broker.broker if of_this else {}) if name else broker.cluster
    check_no_classes(
        {config: text for config, text in wanted.items() if known.get(config) != text}, broker.pykbroker_ignore_classes
    )
    try:
        own = wanted if broker.sources is None or not of_this else resolve(wanted, wanted, broker.sources)
        for config, text in own.items():
            if (row := dynamic_row(config)) is not None and (is_known or not has_variable(text, wanted)):
                read_resolved(row, config, text, wanted[config])
        if not name:
            refuse_any(
                "Cannot update these configs at default cluster level, broker id must be specified",
                (config for config in wanted if is_of_one_broker(config)),
            )
        if not is_known:
            return
        if not name:
            changed = broker.with_dynamic(wanted, broker.broker)
        else:
            changed = broker.with_dynamic(broker.cluster, wanted)
            check_listener_change(broker, changed)
    except ApiError as error:
        raise bad_request(str(error)) from error
    for config in (*NEVER_ZERO, *filter(listener_row, wanted)):
        if changed.values[config] == 0:
            raise bad_request(f"Invalid {config.split('.', 3)[-1] if listener_row(config) else config} 0")
    check_threads(broker.values, changed.values)
    check_cleaner(broker.values["log.cleaner.threads"], changed.values["log.cleaner.threads"])
    for unit in ("ms", "bytes"):
        check_local_retention(unit, changed.values)


def is_this(name: str, node_id: int) -> bool:
    """Whether the name is the id of this broker. Raise ApiError if it is no id."""
    if not INTEGER.fullmatch(name):
        raise bad_request(f"Node id must be an integer, but it is: {name}")
    return int(name) == node_id


def check_is_this(resource: tuple[int, str], node_id: int) -> None:
    """Raise ApiError for the configs of another broker, which only that broker accepts from clients."""
    kind, name = resource
    if kind == ConfigResource.BROKER and name and not is_this(name, node_id):
        raise bad_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def dynamic_row(config: str) -> Row | None:
    """Return the row of a dynamic config, with or without a listener prefix, or None if its value is not validated."""
    base = config.split(".", 3)[-1] if config.startswith(LISTENER_PREFIX) else config
    row = BROKER.get(base) or BROKER_QUOTAS.get(base)
    return None if row is None or row.update is Update.READ_ONLY else row


def is_of_one_broker(config: str) -> bool:
    """Whether the config cannot be set as the cluster-wide default."""
    if config.startswith(LISTENER_PREFIX):
        return config.split(".", 3)[-1] not in OF_ALL_LISTENERS
    return config in BROKER and BROKER[config].update is Update.PER_BROKER


def check_threads(old: Mapping[str, Value], new: Mapping[str, Value]) -> None:
    """Raise ApiError for a change that more than halves or doubles a thread count."""
    for config in THREADS:
        was, wanted = old[config], new[config]
        if not isinstance(was, int) or not isinstance(wanted, int) or was == wanted:
            continue
        failed = f"Dynamic thread count update validation failed for {config}={wanted}, value should"
        if wanted < was // 2:
            raise bad_request(f"{failed} be at least half the current value {was}")
        if wanted > was * 2:
            raise bad_request(f"{failed} not be greater than double the current value {was}")


def check_cleaner(was: Value, threads: Value) -> None:
    """Raise ApiError for a change that more than halves or doubles the number of log cleaner threads."""
    assert isinstance(was, int)
    assert isinstance(threads, int)
    if threads < max(1, was // 2):
        raise bad_request(f"Log cleaner threads cannot be reduced to less than half the current value {was}")
    if threads > was * 2:
        raise bad_request(f"Log cleaner threads cannot be increased to more than double the current value {was}")


def check_local_retention(unit: str, values: Mapping[str, Value]) -> None:
    """Raise ApiError if the local retention of tiered logs exceeds the total retention. `unit` is ms or bytes."""
    local, whole = f"log.local.retention.{unit}", f"log.retention.{unit}"
    limit, most = values[local], values[whole]
    if limit == NOT_SET or not isinstance(limit, int) or not isinstance(most, int) or most == -1:
        return
    if limit == -1:
        raise bad_request(
            f"Invalid value -1 for configuration {local}: Value must not be -1 as {whole} value is set as {most}."
        )
    if limit > most:
        raise bad_request(
            f"Invalid value {limit} for configuration {local}: "
            f"Value must not be more than {whole} property value: {most}"
        )


def refuse_any(reason: str, configs: Iterable[str]) -> None:
    """Raise ApiError INVALID_REQUEST with the reason and the configs, unless there are no configs."""
    if found := list(configs):
        raise bad_request(f"{reason}: [{', '.join(found)}]")
