"""The settings of a producer: when it is idempotent, and which settings contradict each other."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from pykbroker.client.settings import InvalidSetting
from pykbroker.producer.settings import ProducerSettings, producer_settings
from wire.records.compression import Codec


def made(**given: Any) -> ProducerSettings:
    """Return settings with a server."""
    return producer_settings({"bootstrap_servers": "localhost"} | given)


def test_the_defaults_are_those_of_kafka() -> None:
    found = made()
    assert found.is_idempotent
    assert (found.acks_number, found.in_flight_max, found.delivery_ms) == (-1, 5, 120_000)
    assert (found.batches().batch_bytes, found.batches().linger_ms, found.batches().codec) == (16_384, 5, Codec.NONE)
    assert (found.sending().request_bytes_max, found.sending().retries) == (1 << 20, 0x7FFF_FFFF)


@pytest.mark.parametrize(
    ("given", "acks"),
    [({"acks": "all"}, -1), ({"acks": -1}, -1), ({"acks": "1"}, 1), ({"acks": 1}, 1), ({"acks": 0}, 0)],
)
def test_acks_may_be_a_number_or_a_word(given: dict[str, Any], acks: int) -> None:
    found = made(**given)
    assert found.acks_number == acks
    assert found.is_idempotent is (acks == -1)


@pytest.mark.parametrize(
    ("given", "large"),
    [
        ({}, 1_000_000),
        ({"max_request_size": 999_999}, 999_999),
        ({"max_request_size": 1_000_000}, 1_000_000),
        ({"max_request_size": 1_000_001}, 1_000_000),
        ({"buffer_memory": 7_999_999}, 999_999),
        ({"buffer_memory": 8_000_000}, 1_000_000),
        ({"buffer_memory": 8_000_008}, 1_000_000),
        ({"batch_size": 16_384}, 0),
        ({"batch_size": 0}, 0),
    ],
)
def test_batches_for_the_rows_of_a_call_are_large_unless_the_batch_size_is_set(
    given: dict[str, int], large: int
) -> None:
    found = made(**given).batches()
    assert (found.batch_bytes, found.large_batch_bytes) == (given.get("batch_size", 16_384), large)


@pytest.mark.parametrize("given", [{"acks": 1}, {"retries": 0}])
def test_a_setting_that_rules_out_idempotence_is_logged(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="pykbroker.producer"):
        assert not made(**given).is_idempotent
    name, value = next(iter(given.items()))
    assert f"the producer is not idempotent, because {name}={value} is set" in caplog.text


@pytest.mark.parametrize("in_flight", [5, 6])
def test_idempotence_limits_the_requests_in_flight(in_flight: int) -> None:
    name = "max_in_flight_requests_per_connection"
    assert made(**{name: in_flight, "enable_idempotence": False}).in_flight_max == in_flight
    if in_flight <= 5:
        assert made(**{name: in_flight}).is_idempotent
    else:
        with pytest.raises(InvalidSetting, match=f"{name}=6 is more than 5"):
            made(**{name: in_flight})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"acks": 1, "enable_idempotence": True}, "acks=1 contradicts enable_idempotence=True"),
        ({"retries": 0, "transactional_id": "t"}, "retries=0 contradicts transactional_id"),
        (
            {"enable_idempotence": False, "transactional_id": "t"},
            "enable_idempotence=False contradicts transactional_id",
        ),
        ({"linger_ms": float("inf")}, "linger_ms"),
        ({"buffer_memory": 16_383}, "buffer_memory=16383 is less than batch_size=16384: no batch has memory"),
        ({"delivery_timeout_ms": 30_004}, "delivery_timeout_ms=30004 is less than linger_ms + request_timeout_ms"),
        ({"compression_level": 3}, "compression_level has no meaning for compression_type=None"),
        ({"compression_type": "lz5"}, "use 'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
        ({"transactional_id": ""}, "transactional_id='' is not allowed"),
        ({"buffer_memory": 0}, "buffer_memory=0 is not allowed: expected `int` >= 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(text)):
        made(**given)


@pytest.mark.parametrize(("given", "delivery_ms"), [({}, 120_000), ({"request_timeout_ms": 200_000}, 200_005)])
def test_the_default_delivery_timeout_covers_one_request(given: dict[str, Any], delivery_ms: int) -> None:
    assert made(**given).delivery_ms == delivery_ms


def test_the_smallest_delivery_timeout_is_allowed() -> None:
    assert made(delivery_timeout_ms=30_005).delivery_ms == 30_005


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"key_serializer": 5}, "key_serializer=5 is not allowed: pass a function"),
        ({"interceptors": [5]}, "interceptors: 5 is no interceptor: pass an object with a method on_send or"),
        ({"compression_type": "zstd", "compression_level": 99}, "compression_level=99 is not allowed: zstd has"),
        ({"compression_type": "lz4", "compression_level": 18}, "lz4 has the levels 1 to 17"),
        ({"compression_type": "gzip", "compression_level": 0}, "gzip has the levels 1 to 9"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism has no effect with security_protocol='PLAINTEXT'"),
        ({"ssl.truststore.location": "a"}, "ssl_truststore_location has no effect with security_protocol='PLAINTEXT'"),
        ({"proxy_url": "socks5://a"}, "proxy_url='socks5://a' is not supported"),
    ],
)
def test_settings_that_could_only_fail_later_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        made(**given)


def test_the_default_of_the_security_protocol_is_accepted() -> None:
    assert made(security_protocol="PLAINTEXT", ssl_context=None).is_idempotent
    assert made(compression_type="gzip", compression_level=-1).batches().level == -1
