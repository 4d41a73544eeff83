"""Tests of the descriptions of configs: exactly the configs that exist have one."""

from __future__ import annotations

import pytest

from pykbroker.core.config.docs import DOCS, NO_EFFECT, UNUSED, USED, documentation
from pykbroker.core.config.table import BROKER, BROKER_QUOTAS, CLIENT_METRICS, CLIENT_QUOTAS, GROUP, IP_QUOTAS, TOPIC

TABLES = (BROKER, TOPIC, GROUP, CLIENT_METRICS, BROKER_QUOTAS, CLIENT_QUOTAS, IP_QUOTAS)


def test_exactly_the_existing_configs_have_a_description() -> None:
    assert set(DOCS) == {name for table in TABLES for name in table}
    assert sorted(USED.keys() & UNUSED.keys()) == []


def test_descriptions_are_short_and_complete() -> None:
    texts = {name: text.removeprefix(NO_EFFECT) for name, text in DOCS.items()}
    assert [name for name, text in texts.items() if not 30 <= len(text) <= 160 or not text.endswith(".")] == []
    assert [name for name, text in USED.items() if not text[0].isupper()] == []
    assert [name for name, text in UNUSED.items() if not text[0].islower()] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("retention.ms", "log.retention.ms"),  # a topic config, and the broker config that is its default
        # a group config, and the broker config that is its default
        ("share.session.timeout.ms", "group.share.session.timeout.ms"),
        ("ssl.keystore.type", "listener.name.external.ssl.keystore.type"),
        ("sasl.jaas.config", "listener.name.external.plain.sasl.jaas.config"),
    ],
)
def test_a_config_and_its_synonym_have_the_same_description(one: str, other: str) -> None:
    assert documentation(one) == documentation(other) != ""


def test_a_synonym_in_another_unit_has_its_own_description() -> None:
    assert "in hours" in documentation("log.retention.hours")


@pytest.mark.parametrize("name", ["nope", "", "listener.name.external.nope", "listener.name.external"])
def test_unknown_configs_have_no_description(name: str) -> None:
    assert documentation(name) == ""
