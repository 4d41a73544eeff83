"""Tests of the configs in CreateTopics responses: topics with equal configs share one description."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.entries import ConfigEntry, describe_topic
from pykbroker.core.config.live_config import Dynamic, LiveConfig
from pykbroker.replica import topic_configs
from pykbroker.replica.topic_configs import DESCRIPTIONS_MAX, TopicConfigs
from pykbroker.world.config_sources import SystemConfigSources


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Texts]:
    """Return the config overrides of each description that was computed."""
    found = list[Texts]()

    def noted(config: BrokerConfig, overrides: Texts) -> Iterator[ConfigEntry]:
        found.append(overrides)
        return describe_topic(config, overrides)

    monkeypatch.setattr(topic_configs, "describe_topic", noted)
    return found


@pytest.mark.parametrize(
    ("others", "times"), [(DESCRIPTIONS_MAX - 1, 1), (DESCRIPTIONS_MAX, 2), (DESCRIPTIONS_MAX + 1, 2)]
)
def test_topics_with_equal_configs_share_one_description(made: list[Texts], others: int, times: int) -> None:
    configs = TopicConfigs(LiveConfig(BrokerConfig.from_mapping({})))
    plain = configs.describe({}, Dynamic())
    for number in range(others):
        configs.describe({"retention.ms": str(number)}, Dynamic())
    assert configs.describe({}, Dynamic()) == plain
    assert made.count({}) == times


def test_a_description_has_the_current_broker_configs(made: list[Texts]) -> None:
    configs = TopicConfigs(LiveConfig(BrokerConfig.from_mapping({})))
    for retention in ("1000", "2000"):
        described = configs.describe({}, Dynamic(cluster={"log.retention.ms": retention}))
        assert next(one.value for one in described if one.name == "retention.ms") == retention
    assert len(made) == 2


def test_a_description_has_the_values_of_variables_that_were_read_last(tmp_path: Path) -> None:
    path, kind = tmp_path / "f", "org.apache.kafka.common.config.provider.FileConfigProvider"
    live = LiveConfig(BrokerConfig.from_mapping({}, SystemConfigSources()))
    provider = {"config.providers": "file", "config.providers.file.class": kind}
    dynamic, configs = Dynamic({**provider, "log.retention.ms": f"${{file:{path}:ms}}"}), TopicConfigs(live)
    for ms in ("1000", "2000"):
        path.write_text(f"ms={ms}")
        live.use(live.read(dynamic))
        described = {one.name: one.value for one in configs.describe({}, dynamic)}
        assert described["retention.ms"] == ms
        assert configs.log_config({}, dynamic).retention_ms == int(ms)
