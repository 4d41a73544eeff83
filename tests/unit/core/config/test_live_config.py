"""Tests of the effective config of a running broker, in which dynamic configs override static ones."""

from __future__ import annotations

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import Dynamic, LiveConfig


def live(**static: str) -> LiveConfig:
    return LiveConfig(BrokerConfig.from_mapping({name.replace("_", "."): text for name, text in static.items()}))


def test_dynamic_configs_take_precedence_over_static_ones() -> None:
    config = live(log_retention_ms="1000")
    for dynamic, value in [
        (Dynamic(), 1000),
        (Dynamic({"log.retention.ms": "2000"}), 2000),
        (Dynamic({"log.retention.ms": "2000"}, {"log.retention.ms": "3000"}), 3000),
        (Dynamic({}, {"log.retention.ms": "3000"}), 3000),
        (Dynamic(), 1000),
    ]:
        assert config.under(dynamic).get("log.retention.ms") == value


def test_unchanged_dynamic_configs_are_parsed_once() -> None:
    config = live()
    assert config.under(Dynamic({"log.retention.ms": "5"})) is config.under(Dynamic({"log.retention.ms": "5"}))
    assert config.under(Dynamic()) is not config.under(Dynamic({"log.retention.ms": "5"}))


def test_invalid_dynamic_values_are_ignored() -> None:
    config = live().under(Dynamic({"log.retention.ms": "soon", "log.segment.bytes": "2000000", "of.a.plugin": "x"}))
    assert (config.get("log.retention.ms"), config.get("log.segment.bytes")) == (None, 2_000_000)
    assert config.cluster == {"log.segment.bytes": "2000000", "of.a.plugin": "x"}


def test_dynamic_values_that_contradict_each_other_leave_the_static_config() -> None:
    config = live(log_segment_bytes="3000000")
    assert config.under(Dynamic({"log.retention.ms": "0", "log.segment.bytes": "2000000"})) is config.started
