"""Configs as DescribeConfigs returns them: value, source, and synonyms in order of precedence (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from pykbroker.core.config.config import DEFAULTS, BrokerConfig, Texts, topic_default
from pykbroker.core.config.row import Row, Update
from pykbroker.core.config.table import (
    BROKER,
    BROKER_QUOTAS,
    CLIENT_METRICS,
    GROUP,
    GROUP_SYNONYMS,
    LISTENER_PREFIX,
    TOPIC,
    TOPIC_SYNONYMS,
    base_of,
)
from pykbroker.core.config.type import Type, Value, text_of


class Source(IntEnum):
    """The source of a value. The numbers are those of the protocol."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """A config from which a value may be taken. The value of a sensitive or unknown config is None."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """A config in a DescribeConfigs result. The value of a sensitive or unknown config is None."""

    name: str
    value: str | None
    type: Type
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]


FAMILIES = {name: family for family in TOPIC_SYNONYMS.values() for name in family}
"""Broker configs that set the same value in different units, in order of precedence."""


def describe_broker(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield every config of the broker, including unknown ones that are set."""
    given = {**config.static, **config.cluster, **config.broker}
    for name in dict.fromkeys((*BROKER, *given)):
        row = broker_row(name)
        if name in given or not row.internal:
            value = config.values[name] if name in BROKER else given[name]
            yield entry(row, value, broker_synonyms(config, name), row.update is Update.READ_ONLY)


def describe_topic(config: BrokerConfig, overrides: Texts) -> Iterator[ConfigEntry]:
    """Yield every config of a topic on this broker."""
    for name, row in TOPIC.items():
        under = TOPIC_SYNONYMS.get(name)
        synonyms = own(row, overrides, Source.DYNAMIC_TOPIC_CONFIG)
        synonyms += broker_synonyms(config, under[0]) if under else ()
        value = row.read(overrides[name]) if name in overrides else topic_default(config.values, name)
        if name in overrides or not row.internal:
            yield entry(row, value, synonyms)


def describe_group(config: BrokerConfig, overrides: Texts) -> Iterator[ConfigEntry]:
    """Yield every config of a group on this broker."""
    for name, row in GROUP.items():
        synonyms = own(row, overrides, Source.DYNAMIC_GROUP_CONFIG)
        if under := GROUP_SYNONYMS.get(name):
            value, synonyms = config.values[under], synonyms + broker_synonyms(config, under)
        else:
            value, synonyms = row.default, (*synonyms, Synonym(name, text_of(row.default), Source.DEFAULT_CONFIG))
        yield entry(row, row.read(overrides[name]) if name in overrides else value, synonyms)


def describe_client_metrics(overrides: Texts) -> Iterator[ConfigEntry]:
    """Yield every config of a client metrics subscription."""
    for name, row in CLIENT_METRICS.items():
        value = row.read(overrides[name]) if name in overrides else row.default
        yield entry(row, value, own(row, overrides, Source.DYNAMIC_CLIENT_METRICS_CONFIG))


def entry(row: Row, value: Value, synonyms: tuple[Synonym, ...], read_only: bool = False) -> ConfigEntry:
    """Return the entry of one config. Its source is the source of its first synonym."""
    source = synonyms[0].source if synonyms else Source.DEFAULT_CONFIG
    text = None if hidden(row) else text_of(value)
    return ConfigEntry(row.name, text, row.type, source, read_only, hidden(row), synonyms)


def broker_row(name: str) -> Row:
    """Return the row of a broker config. An unknown config gets a row of type UNKNOWN.

    A config of a listener, or of a mechanism on it, has the type of the same config without the prefix.
    """
    row = BROKER.get(name) or BROKER_QUOTAS.get(name)
    if row is not None:
        return row
    base = BROKER.get(base_of(name)) if name.startswith(LISTENER_PREFIX) else None
    return Row(name, Type.UNKNOWN if base is None else base.type, None)


def hidden(row: Row) -> bool:
    """Whether DescribeConfigs omits the value, because it is a password or may be one: the config is unknown."""
    return row.type in (Type.PASSWORD, Type.UNKNOWN)


def own(row: Row, overrides: Texts, source: Source) -> tuple[Synonym, ...]:
    """Return the synonym for the resource's own override, or an empty tuple if it has none."""
    return (Synonym(row.name, text_of(row.read(overrides[row.name])), source),) if row.name in overrides else ()


def broker_synonyms(config: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    """Return the synonyms of a broker config: the config itself, and the configs for the same value in other units.

    As in Kafka, the list begins with `name`: synonyms of higher precedence are left out. If `name` is not set, the list
    is empty.
    """
    layers: tuple[tuple[Source, Texts], ...] = (
        (Source.DYNAMIC_BROKER_CONFIG, config.broker),
        (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, config.cluster),
        (Source.STATIC_BROKER_CONFIG, config.static),
        (Source.DEFAULT_CONFIG, DEFAULT_TEXTS),
    )
    family = FAMILIES.get(name, (name,))
    if name.startswith(LISTENER_PREFIX):
        family = name, base_of(name)
    found = [
        Synonym(member, None if hidden(broker_row(member)) else layer[member], source)
        for source, layer in layers
        for member in family
        if member in layer
    ]
    first = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[first:])


DEFAULT_TEXTS = {name: text for name, value in DEFAULTS.items() if (text := text_of(value)) is not None}
