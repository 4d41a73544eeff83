"""The arguments of the drop-in: kafka-python's names and defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import kafka
import kafka.errors
import pytest

import pykbroker.kafka
from pykbroker.client.security import SECURITY
from pykbroker.kafka import KafkaConsumer, KafkaProducer
from pykbroker.kafka.errors import KafkaConfigurationError
from pykbroker.kafka.settings import PRODUCER_DEFAULTS, WITHOUT_EFFECT, producer_configs, producer_settings_of
from pykbroker.producer.settings import ProducerSettings, producer_settings


def made(**given: Any) -> ProducerSettings:
    """Return the settings of our producer for these arguments."""
    return producer_settings(producer_settings_of(producer_configs(given), given))


def test_every_argument_of_kafka_python_is_known_with_its_default() -> None:
    theirs = kafka.KafkaProducer.DEFAULT_CONFIG
    known = PRODUCER_DEFAULTS.keys() | SECURITY.keys() | WITHOUT_EFFECT
    assert theirs.keys() - known == set()
    unlike = {name for name in theirs.keys() & PRODUCER_DEFAULTS.keys() if theirs[name] != PRODUCER_DEFAULTS[name]}
    assert unlike == {"partitioner"}, "the default partitioner is our own"
    assert {name for name in SECURITY if theirs[name] != SECURITY[name]} == {"kafka_client"}


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="Unrecognized configs: {'lingr_ms': 5}: do you mean 'linger_ms'"):
        KafkaProducer(lingr_ms=5)
    with pytest.raises(ValueError, match="Unrecognized configs: {'grupid': 'g'}: do you mean 'group_id'"):
        KafkaConsumer(grupid="g")


@pytest.mark.parametrize("make", [KafkaProducer, KafkaConsumer])
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serializer_that_is_no_function_is_refused(make: Any, part: str) -> None:
    name = f"{part}_serializer" if make is KafkaProducer else f"{part}_deserializer"
    with pytest.raises(KafkaConfigurationError, match=f"{name}=5 is not allowed: pass a function"):
        make(**{name: 5})


def test_the_names_of_kafka_python_are_here() -> None:
    lacking = {name for name in kafka.__all__ if name not in vars(pykbroker.kafka)}
    assert lacking == {"KafkaAdminClient"}
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


@pytest.mark.parametrize(
    ("name", "value"),
    [("security_protocol", "SSL"), ("ssl_cafile", "ca.pem"), ("sasl_mechanism", "PLAIN"), ("proxy_url", "socks5://a")],
)
def test_security_other_than_plaintext_is_refused_with_a_sentence(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}='{value}' is not supported: this client connects without TLS"):
        KafkaProducer(**{name: value})


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
