"""DescribeConfigs compared with the response of Apache Kafka 4.3.1 for a broker with many configs set."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.entries import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from pykbroker.core.config.table import BROKER

KAFKA = json.loads((Path(__file__).parents[3] / "data/config/kafka-4.3.1-described.json").read_text())


def configs_at(layer: str) -> dict[str, str]:
    """Return the configs that the recorded Kafka broker had at one level, for example DYNAMIC_BROKER_CONFIG."""
    found = {}
    for described in KAFKA["BROKER"].values():
        for synonym in described.get("synonyms", ()):
            text, _, source = synonym.rpartition("@")
            name, _, value = text.partition("=")
            if source == layer:
                found[name] = value
    return found


@pytest.fixture
def config() -> BrokerConfig:
    static = BrokerConfig.of_layers(configs_at("STATIC_BROKER_CONFIG"), {}, {})
    return static.with_dynamic(configs_at("DYNAMIC_DEFAULT_BROKER_CONFIG"), configs_at("DYNAMIC_BROKER_CONFIG"))


def as_observed(entries: Iterable[ConfigEntry]) -> dict[str, dict[str, Any]]:
    observed: dict[str, dict[str, Any]] = {}
    for entry in entries:
        observed[entry.name] = {
            "value": entry.value,
            "type": entry.type.name,
            "source": entry.source.name,
            "readOnly": entry.read_only,
            "sensitive": entry.sensitive,
        }
        if entry.synonyms:
            observed[entry.name]["synonyms"] = [
                f"{name}={'null' if value is None else value}@{source.name}" for name, value, source in entry.synonyms
            ]
    return observed


def test_a_broker_is_described_as_by_kafka(config: BrokerConfig) -> None:
    ours = as_observed(describe_broker(config))
    assert {name for name in ours if name not in KAFKA["BROKER"]} == {n for n in BROKER if n.startswith("pykbroker.")}
    assert {name: ours[name] for name in KAFKA["BROKER"]} == KAFKA["BROKER"]


def test_a_topic_is_described_as_by_kafka(config: BrokerConfig) -> None:
    assert as_observed(describe_topic(config, {"segment.index.bytes": "1024"})) == KAFKA["TOPIC"]


def test_a_group_and_client_metrics_are_described_as_by_kafka(config: BrokerConfig) -> None:
    assert as_observed(describe_group(config, {})) == KAFKA["GROUP"]
    metrics = describe_client_metrics({"interval.ms": "1000", "metrics": "*"})
    assert as_observed(metrics) == KAFKA["CLIENT_METRICS"]


def test_a_group_config_takes_precedence_over_the_broker_config(config: BrokerConfig) -> None:
    name = "consumer.session.timeout.ms"
    (entry,) = (each for each in describe_group(config, {name: "46000"}) if each.name == name)
    assert (entry.value, entry.source.name) == ("46000", "DYNAMIC_GROUP_CONFIG")
    assert [synonym.value for synonym in entry.synonyms] == ["46000", "45000"]


def test_a_config_of_a_mechanism_has_the_type_of_the_same_config_without_it() -> None:
    reauth, jaas = "connections.max.reauth.ms", "sasl.jaas.config"
    prefix = "listener.name.clients.plain."
    config = BrokerConfig.from_mapping({prefix + reauth: "600000", prefix + jaas: "canary"})
    found = as_observed(each for each in describe_broker(config) if each.name.startswith(prefix))
    static = {"source": "STATIC_BROKER_CONFIG", "readOnly": True}
    assert found == {
        prefix + reauth: {
            **static,
            "value": "600000",
            "type": "LONG",
            "sensitive": False,
            "synonyms": [f"{prefix}{reauth}=600000@STATIC_BROKER_CONFIG", f"{reauth}=0@DEFAULT_CONFIG"],
        },
        prefix + jaas: {
            **static,
            "value": None,
            "type": "PASSWORD",
            "sensitive": True,
            "synonyms": [f"{prefix}{jaas}=null@STATIC_BROKER_CONFIG"],
        },
    }


def test_values_of_passwords_are_never_returned() -> None:
    config = BrokerConfig.from_mapping({"ssl.key.password": "canary", "maybe.secret": "canary"})
    assert "canary" not in repr(list(describe_broker(config)))
