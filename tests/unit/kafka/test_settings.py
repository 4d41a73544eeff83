"""The arguments of the drop-in: kafka-python's names and defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import kafka
import kafka.coordinator.assignors.roundrobin
import kafka.errors
import pytest

import pykbroker.kafka
from pykbroker.client.security_settings import SECURITY
from pykbroker.kafka import KafkaConsumer, KafkaProducer
from pykbroker.kafka.coordinator.assignors.range import RangePartitionAssignor
from pykbroker.kafka.errors import KafkaConfigurationError
from pykbroker.kafka.settings import (
    UNSUPPORTED,
    WITHOUT_EFFECT,
    arguments,
    consumer_configs,
    consumer_settings_of,
    producer_configs,
    producer_settings_of,
)
from pykbroker.producer.settings import ProducerSettings, producer_settings

VERSIONS = [
    ((2, 6), True, True),
    ("2.6", True, True),
    ("auto", True, False),
    ("newest", False, False),
    ("2.", False, False),
]


def made(**given: Any) -> ProducerSettings:
    """Return the settings of our producer for these arguments."""
    return producer_settings(producer_settings_of(producer_configs(given), given))


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "unlike"),
    [
        (KafkaProducer, kafka.KafkaProducer, {"buffer_memory"}, {"partitioner"}),
        (
            KafkaConsumer,
            kafka.KafkaConsumer,
            set(),
            {"client_id", "default_offset_commit_callback", "partition_assignment_strategy"},
        ),
    ],
)
def test_the_arguments_and_defaults_are_those_of_kafka_python(
    ours: Any, theirs: Any, more: set[str], unlike: set[str]
) -> None:
    own, other = ours.DEFAULT_CONFIG, theirs.DEFAULT_CONFIG
    assert own.keys() ^ other.keys() == more
    assert {name for name in other if own[name] != other[name]} == unlike | {"kafka_client"}
    assert type(own.get("partitioner")).__name__ == type(other.get("partitioner")).__name__
    assert arguments(own, own) == own, "the defaults may be passed"


@pytest.mark.parametrize("make", [KafkaProducer, KafkaConsumer])
@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_an_argument_for_a_part_that_is_missing_is_refused_by_its_name(make: Any, name: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=f"{name}='other' is not supported"):
        make(**{name: "other"})


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_an_argument_that_changes_no_result_is_accepted(name: str) -> None:
    assert producer_configs({name: (4, 3)})[name] == (4, 3)


@pytest.mark.parametrize(("version", "of_producer", "of_consumer"), VERSIONS)
def test_a_version_is_accepted_where_kafka_python_takes_it(version: Any, of_producer: bool, of_consumer: bool) -> None:
    for read, is_accepted in ((producer_configs, of_producer), (consumer_configs, of_consumer)):
        if is_accepted:
            assert read({"api_version": version})["api_version"] == version
        else:
            with pytest.raises(KafkaConfigurationError, match=f"api_version='{version}' is not allowed"):
                read({"api_version": version})


@pytest.mark.parametrize(
    ("times", "is_allowed"),
    [((500, 501, 502), True), ((501, 501, 502), False), ((500, 502, 502), False), ((500, 501, -1), False)],
)
def test_the_times_of_a_consumer_grow(times: tuple[int, int, int], is_allowed: bool) -> None:
    names = ("fetch_max_wait_ms", "request_timeout_ms", "connections_max_idle_ms")
    given = dict(zip(names, times, strict=True))
    if is_allowed:
        assert consumer_configs(given)["request_timeout_ms"] == times[1]
    else:
        with pytest.raises(KafkaConfigurationError, match="connections_max_idle_ms .* must be larger than"):
            consumer_configs(given)


def test_an_assignor_is_given_by_name_or_class_and_not_of_ones_own() -> None:
    classes = (RangePartitionAssignor, kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor, "sticky")
    settings = consumer_settings_of(consumer_configs({"partition_assignment_strategy": classes}))
    assert settings["partition_assignment_strategy"] == ["range", "roundrobin", "sticky"]
    with pytest.raises(KafkaConfigurationError, match="use range, roundrobin, sticky, cooperative-sticky, as text"):
        KafkaConsumer(partition_assignment_strategy=[object])


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(KafkaConfigurationError, match="Unrecognized configs: {'lingr_ms': 5}: do you mean 'linger_ms'"):
        KafkaProducer(lingr_ms=5)
    with pytest.raises(KafkaConfigurationError, match="Unrecognized configs: {'grupid': 'g'}: do you mean 'group_id'"):
        KafkaConsumer(grupid="g")


@pytest.mark.parametrize("make", [KafkaProducer, KafkaConsumer])
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serializer_that_is_no_function_is_refused(make: Any, part: str) -> None:
    name = f"{part}_serializer" if make is KafkaProducer else f"{part}_deserializer"
    with pytest.raises(KafkaConfigurationError, match=f"{name}=5 is not allowed: pass a function"):
        make(**{name: 5})


def test_the_names_of_kafka_python_are_here() -> None:
    lacking = {name for name in kafka.__all__ if name not in vars(pykbroker.kafka)}
    assert lacking == set()
    errors = {name for name, found in vars(kafka.errors).items() if isinstance(found, type)} - {"NoError"}
    for name in errors:
        assert issubclass(getattr(pykbroker.kafka.errors, name), getattr(kafka.errors, name))


@pytest.mark.parametrize("content", [None, b"bytes", "text"])
def test_serializers_are_those_of_kafka_python(content: Any) -> None:
    for name in ("DefaultSerializer", "JsonSerializer"):
        ours, theirs = getattr(pykbroker.kafka, name)(), getattr(kafka, name)()
        if name == "JsonSerializer" and isinstance(content, bytes):
            continue
        data = ours.serialize("topic", [], content)
        assert data == theirs.serialize("topic", [], content)
        assert ours.deserialize("topic", [], data) == theirs.deserialize("topic", [], data)


@pytest.mark.parametrize(("given", "large"), [({}, 1_000_000), ({"batch_size": 16_384}, 0)])
def test_only_a_batch_size_that_the_caller_has_set_bounds_the_rows_of_a_call(given: dict[str, int], large: int) -> None:
    assert (made(**given).batch_bytes, made(**given).batches().large_batch_bytes) == (16_384, large)


def test_the_defaults_of_security_are_accepted() -> None:
    assert made(**{name: value for name, value in SECURITY.items() if value is not None}).is_idempotent


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": 1}, False),
        ({"acks": "all"}, True),
        ({"retries": 0}, False),
        ({"max_in_flight_requests_per_connection": 6}, False),
        ({"enable_idempotence": False}, False),
        ({"transactional_id": "t"}, True),
    ],
)
def test_idempotence_follows_kafka_pythons_rule(given: dict[str, Any], idempotent: bool) -> None:
    assert made(**given).is_idempotent is idempotent


@pytest.mark.parametrize(
    "given",
    [
        {"enable_idempotence": True, "acks": 1},
        {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
        {"transactional_id": "t", "enable_idempotence": False},
        {"linger_ms": -1},
    ],
)
def test_arguments_that_contradict_each_other_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(KafkaConfigurationError):
        KafkaProducer(**given)


def test_the_value_of_a_misspelt_password_is_hidden() -> None:
    with pytest.raises(KafkaConfigurationError, match=r"'sasl_plain_pasword': '\[hidden\]'}: do you mean") as refused:
        KafkaProducer(sasl_plain_pasword="canary")
    assert "canary" not in str(refused.value)
