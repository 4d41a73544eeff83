"""Validation of the configs that a client sends for a resource. An ApiError has the reason.

The check covers all configs that the resource would have after the change. Error codes and messages are those of Apache
Kafka 4.3.1, unless Kafka's message is about its own internals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pykbroker.core.config.broker_change import check_broker_change
from pykbroker.core.config.config import BrokerConfig, Texts, read, topic_default
from pykbroker.core.config.group_bounds import check_group_values
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.config.row import ConfigTable
from pykbroker.core.config.table import BROKER, CLIENT_METRICS, GROUP, TOPIC
from pykbroker.core.config.type import refuse
from pykbroker.core.errors import bad_request
from pykbroker.core.names import check_topic_name

PUSH_INTERVAL_MS_MIN, PUSH_INTERVAL_MS_MAX = 100, 3_600_000
MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""Client properties that the patterns of a client metrics subscription can match (KIP-714)."""


def check_configs(resource: tuple[int, str], wanted: Texts, broker: BrokerConfig) -> None:
    """Raise ApiError for an invalid resource name, an unknown config, or an invalid value."""
    kind, name = resource
    CHECKS[kind](name, wanted, broker)


def check_topic(name: str, wanted: Texts, broker: BrokerConfig) -> None:
    """Raise ApiError for configs that this topic cannot have."""
    if not name:
        raise bad_request("Default topic resources are not allowed.")
    check_topic_name(name)
    check_topic_configs(wanted, broker)


def check_topic_configs(wanted: Texts, broker: BrokerConfig) -> None:
    """Raise ApiError for configs that no topic can have, whether or not the topic exists yet."""
    check_known(TOPIC, "topic", wanted)
    values = {name: topic_default(broker.values, name) for name in TOPIC} | read(TOPIC, wanted)
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low > high:  # type: ignore[operator]
        raise refuse(f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})")
    if values["remote.storage.enable"]:
        raise refuse(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def check_group(name: str, wanted: Texts, broker: BrokerConfig) -> None:
    """Raise ApiError for configs that this group cannot have, or that exceed the broker's bounds for groups."""
    if not name:
        raise bad_request("Default group resources are not allowed.")
    check_known(GROUP, "group", wanted)
    check_group_values(read(GROUP, wanted), broker.values)


def check_client_metrics(name: str, wanted: Texts, broker: BrokerConfig) -> None:
    """Raise ApiError for configs that this client metrics subscription cannot have."""
    if not name:
        raise bad_request("Subscription name can't be empty")
    for config in wanted:
        if config not in CLIENT_METRICS:
            raise bad_request(f"Unknown client metrics configuration: {config}")
    values = read(CLIENT_METRICS, wanted)
    interval_ms = values.get("interval.ms", PUSH_INTERVAL_MS_MAX)
    if not PUSH_INTERVAL_MS_MIN <= interval_ms <= PUSH_INTERVAL_MS_MAX:  # type: ignore[operator]
        raise bad_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{PUSH_INTERVAL_MS_MIN} and {PUSH_INTERVAL_MS_MAX} (1 hour)"
        )
    for pattern in values.get("match", ()):  # type: ignore[union-attr]
        check_pattern(str(pattern))


def check_pattern(pattern: str) -> None:
    """Raise ApiError for a match pattern that is not of the form `property=regular expression`."""
    what, *expressions = pattern.rstrip("=").split("=")
    try:
        re.compile(expressions[0].strip())
    except (re.error, IndexError):
        expressions = []
    if len(expressions) != 1 or what.strip() not in MATCHED:
        raise refuse(f"Illegal client matching pattern: {pattern}")


def check_known(table: ConfigTable, noun: str, given: Texts) -> None:
    """Raise ApiError for a name that is not in the table."""
    for name in given:
        if name not in table:
            raise refuse(f"Unknown {noun} config name: {name}")


CHECKS: Mapping[int, Callable[[str, Texts, BrokerConfig], None]] = {
    ConfigResource.TOPIC: check_topic,
    ConfigResource.BROKER: check_broker_change,
    ConfigResource.CLIENT_METRICS: check_client_metrics,
    ConfigResource.GROUP: check_group,
}

TABLES: Mapping[int, ConfigTable] = {
    ConfigResource.TOPIC: TOPIC,
    ConfigResource.BROKER: BROKER,
    ConfigResource.CLIENT_METRICS: CLIENT_METRICS,
    ConfigResource.GROUP: GROUP,
}
"""The config table of each resource type whose configs are stored in the metadata log."""
