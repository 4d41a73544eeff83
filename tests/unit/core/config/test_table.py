"""The config table compared with the definitions of Apache Kafka 4.3.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from pykbroker.core.config.config import BrokerConfig, Setting
from pykbroker.core.config.row import ConfigTable, Row
from pykbroker.core.config.table import (
    BROKER,
    BROKER_QUOTAS,
    CLIENT_METRICS,
    CLIENT_QUOTAS,
    FILL_IN,
    GROUP,
    GROUP_SYNONYMS,
    IP_QUOTAS,
    ONE_BROKER,
    TOPIC,
    TOPIC_SYNONYMS,
)
from pykbroker.core.config.type import Type

KAFKA = json.loads((Path(__file__).parents[3] / "data/config/kafka-4.3.1-configs.json").read_text())
SCOPES: list[tuple[dict[str, Any], ConfigTable]] = [
    (KAFKA["broker"], BROKER),
    (KAFKA["topic"], TOPIC),
    (KAFKA["group"], GROUP),
    (KAFKA["client-metrics"], CLIENT_METRICS),
    (KAFKA["quotas"]["brokerQuotaConfigs"], BROKER_QUOTAS),
    (KAFKA["quotas"]["userAndClientQuotaConfigs"], CLIENT_QUOTAS),
    (KAFKA["quotas"]["ipConfigs"], IP_QUOTAS),
]


def as_kafka_says(row: Row, scope: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table in the form of Kafka's definitions, without properties that Kafka omits."""
    definition = scope[row.name]
    words: dict[str, Any] = {"type": row.type.name, "importance": definition["importance"]}
    if definition.get("required"):
        words["required"] = row.name in FILL_IN
    else:
        words["default"] = list(row.default) if isinstance(row.default, tuple) else row.default
    if row.valid is not None:
        words["valid"] = str(row.valid)
    if row.internal:
        words["internal"] = True
    if "updateMode" in definition:
        words["updateMode"] = row.update.value
    return words


@pytest.mark.parametrize(("scope", "table"), SCOPES, ids=lambda side: "")
def test_every_row_equals_kafkas_definition(scope: dict[str, Any], table: ConfigTable) -> None:
    ours = {name: row for name, row in table.items() if not name.startswith("pykbroker.")}
    assert {name: as_kafka_says(row, scope) for name, row in ours.items() if name in scope} == scope
    assert list(ours.keys() - scope.keys()) == []


def test_every_default_is_a_valid_value() -> None:
    for _, table in SCOPES:
        for row in table.values():
            if row.valid is not None and row.default is not None:
                row.valid.check(row.name, row.default)


def test_synonyms_and_preset_values_name_existing_configs() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        assert TOPIC[name].type in {BROKER[synonym].type for synonym in synonyms}, name
    assert TOPIC.keys() - TOPIC_SYNONYMS.keys() == {
        "follower.replication.throttled.replicas",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
    assert all(GROUP[name].type is BROKER[synonym].type for name, synonym in GROUP_SYNONYMS.items())
    assert not {*FILL_IN, *ONE_BROKER} - BROKER.keys()


PYTHON_TYPES = {
    Type.BOOLEAN: bool,
    Type.INT: int,
    Type.SHORT: int,
    Type.LONG: int,
    Type.DOUBLE: float,
    Type.STRING: str,
    Type.LIST: tuple[str, ...],
}


def test_each_attribute_of_the_broker_config_has_the_type_of_its_row() -> None:
    settings = {name: each for name, each in vars(BrokerConfig).items() if isinstance(each, Setting)}
    assert len(settings) > 50
    for attribute, setting in settings.items():
        assert attribute == setting.name.replace(".", "_")
        row = BROKER[setting.name]
        kind = PYTHON_TYPES[row.type]
        nullable = row.default is None and row.name not in FILL_IN
        (declared,) = get_args(setting.__orig_class__)  # type: ignore[attr-defined]
        assert declared == (kind | None if nullable else kind), attribute
