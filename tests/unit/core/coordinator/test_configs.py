"""Tests of the configs of coordinators and of their internal topics."""

from __future__ import annotations

import pytest

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import Dynamic, LiveConfig
from pykbroker.core.coordinator.topic import CoordinatorTopic, groups_topic, transactions_topic
from pykbroker.core.errors import ApiError
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.replica.topic_configs import TopicConfigs


def configured(name: str, text: str) -> BrokerConfig:
    return BrokerConfig.from_mapping({name: text})


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("transaction.max.timeout.ms", "timeout_ms_max"),
        ("transactional.id.expiration.ms", "expiration_ms"),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "abort_interval_ms"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", "expire_interval_ms"),
    ],
)
def test_each_transaction_config_sets_its_field_of_the_settings(name: str, field: str) -> None:
    for number in (1, 2**31 - 1):
        assert getattr(TransactionSettings.of(configured(name, str(number)), int), field) == number
    with pytest.raises(ApiError, match="Value must be at least 1"):
        configured(name, "0")


GROUPS, TRANSACTIONS = "offsets.topic", "transaction.state.log"


def topic(name: str, text: str) -> CoordinatorTopic:
    make = groups_topic if name.startswith(GROUPS) else transactions_topic
    return make(configured(name, text))


@pytest.mark.parametrize("kind", [GROUPS, TRANSACTIONS])
def test_each_config_of_an_internal_topic_is_applied_to_the_topic(kind: str) -> None:
    assert topic(f"{kind}.num.partitions", "1").creation().num_partitions == 1
    assert topic(f"{kind}.replication.factor", "1").creation().replication_factor == 1
    assert topic(f"{kind}.segment.bytes", "1048576").configs["segment.bytes"] == "1048576"
    for name in ("num.partitions", "replication.factor", "segment.bytes"):
        with pytest.raises(ApiError, match="Value must be at least 1"):
            configured(f"{kind}.{name}", "0")


def test_transaction_state_log_min_isr_sets_min_insync_replicas() -> None:
    assert topic("transaction.state.log.min.isr", "1").configs["min.insync.replicas"] == "1"


@pytest.mark.parametrize("layer", ["cluster", "broker"])
def test_producer_id_expiration_ms_can_change_while_the_broker_runs(layer: str) -> None:
    configs = TopicConfigs(LiveConfig(configured("producer.id.expiration.ms", "5000")))
    assert configs.log_config({}, Dynamic()).producer_id_expiration_ms == 5000
    changed = Dynamic(**{layer: {"producer.id.expiration.ms": "1"}})
    assert configs.log_config({}, changed).producer_id_expiration_ms == 1
    wrong = Dynamic(**{layer: {"producer.id.expiration.ms": "0"}})
    assert configs.log_config({}, wrong).producer_id_expiration_ms == 5000, "an invalid dynamic value is ignored"
