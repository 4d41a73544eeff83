"""Tests of broker and topic configs: precedence, defaults of topics, and refused values."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.config.check import check_topic_configs
from pykbroker.core.config.config import BrokerConfig, topic_config
from pykbroker.core.config.table import BROKER, ONE_BROKER
from pykbroker.core.config.type import text_of, text_of_double
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode


def test_unset_configs_have_their_defaults() -> None:
    config = BrokerConfig.from_mapping({})
    assert config.node_id == 1
    assert config.get("broker.id") == 1
    assert config.num_partitions == 1
    assert config.auto_create_topics_enable is True
    assert config.get("listeners") == ("PLAINTEXT://:9092",)
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.offsets_topic_replication_factor == 3
    assert config.pykbroker_validate_records is True


def test_the_default_config_suits_a_cluster_of_one_broker() -> None:
    config = BrokerConfig.from_mapping(ONE_BROKER)
    assert config.offsets_topic_replication_factor == 1
    assert config.transaction_state_log_replication_factor == config.transaction_state_log_min_isr == 1
    assert config.group_initial_rebalance_delay_ms == 0


def test_node_id_and_broker_id_set_each_other() -> None:
    assert BrokerConfig.from_mapping({"broker.id": "7"}).node_id == 7
    assert BrokerConfig.from_mapping({"node.id": "7"}).get("broker.id") == 7
    with pytest.raises(ApiError, match=r"node.id 1 and broker.id 2"):
        BrokerConfig.from_mapping({"node.id": "1", "broker.id": "2"})


def test_config_sources_apply_in_order_of_precedence() -> None:
    static = BrokerConfig.from_mapping({"log.retention.ms": "1000"})
    cluster = static.with_dynamic({"log.retention.ms": "2000"})
    both = static.with_dynamic({"log.retention.ms": "2000"}, {"log.retention.ms": "3000"})
    assert [config.get("log.retention.ms") for config in (static, cluster, both)] == [1000, 2000, 3000]


def test_unknown_configs_are_kept_and_reported() -> None:
    config = BrokerConfig.from_mapping({"zookeeper.connect": "x", "listener.name.internal.ssl.keystore.type": "PEM"})
    assert config.unknown == ("zookeeper.connect",)
    assert config.static["zookeeper.connect"] == "x"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "1_0", "Not a number of type INT"),
        ("num.partitions", "", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("log.retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("log.cleaner.min.cleanable.ratio", "1.1", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "Not a number of type DOUBLE"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.type", "brotli", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("controller.quorum.voters", "1@localhost", "Each entry must be of the form id@host:port"),
    ],
)
def test_an_invalid_value_is_refused_with_its_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        BrokerConfig.from_mapping({name: text})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == f"Invalid value {text} for configuration {name}: {reason}"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("compression.gzip.level", "-1", -1),
        ("auto.create.topics.enable", " FALSE ", False),
        ("group.consumer.migration.policy", "upgrade", "upgrade"),
        ("log.dirs", "/a , /b", ("/a", "/b")),
        ("log.dirs", "", ()),
        ("log.cleaner.io.buffer.load.factor", "1e-1", 0.1),
        ("num.io.threads", "+4", 4),
    ],
)
def test_values_are_parsed_as_in_kafka(name: str, text: str, value: object) -> None:
    assert BrokerConfig.from_mapping({name: text}).get(name) == value


def test_a_retention_of_zero_is_refused_in_the_effective_unit() -> None:
    with pytest.raises(ApiError, match=r"log\.retention\.minutes must be"):
        BrokerConfig.from_mapping({"log.retention.minutes": "0"})
    BrokerConfig.from_mapping({"log.retention.minutes": "0", "log.retention.ms": "5"})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": "4194304"}, "at least 1MB per cleaner thread"),
        ({"replica.fetch.wait.max.ms": "30001"}, "unnecessary socket timeouts"),
        ({"replica.lag.time.max.ms": "499"}, "frequent changes in ISR"),
        ({"connections.max.idle.ms": "100"}, "connection.failed.authentication.delay.ms=100 should always be less"),
        ({"offsets.topic.compression.codec": "5"}, "Unknown compression type id: 5"),
        ({"log.dirs": "/a,/b", "cordoned.log.dirs": "/b,/c,/d"}, "Missing entries : /c, /d"),
        ({"log.dirs": "/a", "cordoned.log.dirs": "*,/a"}, "must not contain other values"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
    ],
)
def test_contradicting_configs_are_refused(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as caught:
        BrokerConfig.from_mapping(texts)
    assert message in (caught.value.message or "")


@pytest.mark.parametrize(
    "texts",
    [
        {"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": "4194305"},
        {"replica.fetch.wait.max.ms": "30000"},
        {"replica.lag.time.max.ms": "500"},
        {"connections.max.idle.ms": "101"},
        {"connections.max.idle.ms": "-1"},
        {"offsets.topic.compression.codec": "4"},
        {"log.dirs": "/a,/b", "cordoned.log.dirs": "/b"},
        {"cordoned.log.dirs": "*"},
        {"log.roll.ms": "1"},
        {"log.roll.jitter.ms": "0"},
    ],
)
def test_configs_at_the_limit_of_a_constraint_are_accepted(texts: dict[str, str]) -> None:
    BrokerConfig.from_mapping(texts)


def test_a_topic_inherits_the_broker_config_with_the_finest_unit() -> None:
    def retention_ms(**units: str) -> object:
        config = BrokerConfig.from_mapping({f"log.retention.{unit}": text for unit, text in units.items()})
        return topic_config(config, {})["retention.ms"]

    assert retention_ms() == 7 * 24 * 3_600_000
    assert retention_ms(hours="2") == 7_200_000
    assert retention_ms(hours="2", minutes="3") == 180_000
    assert retention_ms(hours="2", minutes="3", ms="4") == 4
    assert retention_ms(hours="-1") == retention_ms(hours="-2") == retention_ms(ms="-5") == -1


def test_topic_configs_take_precedence_over_broker_configs() -> None:
    broker = BrokerConfig.from_mapping({"log.segment.bytes": "2097152", "log.roll.hours": "1"})
    assert topic_config(broker, {})["segment.bytes"] == 2_097_152
    assert topic_config(broker, {})["segment.ms"] == 3_600_000
    cluster = {"log.segment.bytes": "3145728"}
    assert topic_config(broker.with_dynamic(cluster), {})["segment.bytes"] == 3_145_728
    own = topic_config(broker.with_dynamic(cluster), {"segment.bytes": "1048576", "internal.segment.bytes": "1000"})
    assert (own["segment.bytes"], own["internal.segment.bytes"]) == (1_048_576, 1000)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        (
            {"segment.bytes": "1048575"},
            "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576",
        ),
        ({"cleanup.policy": "delete,"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"cleanup.policy": "shred"},
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
        (
            {"leader.replication.throttled.replicas": "0:1,x"},
            (
                "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: "
                "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
                "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            ),
        ),
    ],
)
def test_an_invalid_topic_config_is_refused_with_a_reason(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        check_topic_configs(configs, BrokerConfig.from_mapping({}))
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_valid_topic_configs_are_accepted() -> None:
    for policy in ("compact,delete", "delete,delete", "compact", ""):
        check_topic_configs(
            {"cleanup.policy": policy, "leader.replication.throttled.replicas": "*"}, BrokerConfig.from_mapping({})
        )


def test_topic_configs_are_checked_against_the_brokers_defaults() -> None:
    check_topic_configs({"min.compaction.lag.ms": "6"}, BrokerConfig.from_mapping({}))
    with pytest.raises(ApiError):
        check_topic_configs(
            {"min.compaction.lag.ms": "6"}, BrokerConfig.from_mapping({"log.cleaner.max.compaction.lag.ms": "5"})
        )


@given(st.sampled_from(sorted(BROKER)), st.text(max_size=12))
def test_formatting_a_parsed_value_and_parsing_it_again_returns_the_same_value(name: str, text: str) -> None:
    row = BROKER[name]
    with suppress(ApiError):
        value = row.read(text)
        shown = text_of(value)
        assert shown is not None
        assert row.read(shown) == value


def test_doubles_are_formatted_as_in_java() -> None:
    shown = [text_of_double(number) for number in (0.5, 0.0, 1e7, 2147483647.0, 1.7976931348623157e308, 0.0001)]
    assert shown == ["0.5", "0.0", "1.0E7", "2.147483647E9", "1.7976931348623157E308", "1.0E-4"]
