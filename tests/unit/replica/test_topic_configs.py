"""Tests of the configs in CreateTopics responses: topics with equal configs share one description."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.entries import ConfigEntry, describe_topic
from pykbroker.core.config.live_config import Dynamic, LiveConfig
from pykbroker.replica import topic_configs
from pykbroker.replica.topic_configs import DESCRIPTIONS_MAX, TopicConfigs


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
