"""Descriptions of configs: every config has one, and nothing else has."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykbroker.core.config.docs import DOCS, NO_EFFECT, UNUSED, USED, documentation
from pykbroker.core.config.table import BROKER, BROKER_QUOTAS, CLIENT_METRICS, CLIENT_QUOTAS, GROUP, IP_QUOTAS, TOPIC

TABLES = (BROKER, TOPIC, GROUP, CLIENT_METRICS, BROKER_QUOTAS, CLIENT_QUOTAS, IP_QUOTAS)


def test_every_config_has_a_description_and_nothing_else_has() -> None:
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
        ("retention.ms", "log.retention.ms"),  # a topic config and the broker config that is its default
        ("share.session.timeout.ms", "group.share.session.timeout.ms"),  # a group config and its broker config
        ("ssl.keystore.type", "listener.name.external.ssl.keystore.type"),
    ],
)
def test_synonyms_have_the_same_description(one: str, other: str) -> None:
    assert documentation(one) == documentation(other) != ""


def test_synonyms_in_other_units_have_their_own_description() -> None:
    assert "in hours" in documentation("log.retention.hours")


@pytest.mark.parametrize("name", ["nope", "", "listener.name.external.nope", "listener.name.external"])
def test_unknown_configs_have_no_description(name: str) -> None:
    assert documentation(name) == ""


def test_a_broker_starts_without_importing_the_descriptions() -> None:
    program = "import sys, pykbroker.broker; assert 'pykbroker.core.config.docs' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
