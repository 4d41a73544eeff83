"""The arguments of aiokafka, which the clients for asyncio accept with their defaults."""

from __future__ import annotations

from inspect import signature
from typing import Any

import aiokafka
import pytest
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from pykbroker.client.settings import InvalidSetting
from pykbroker.consumer import AsyncConsumer
from pykbroker.consumer.async_consumer import consumer_arguments
from pykbroker.consumer.settings import consumer_settings
from pykbroker.producer import AsyncProducer
from pykbroker.producer.async_producer import offset_of


def defaults(theirs: type) -> dict[str, Any]:
    """Return the arguments of a class of aiokafka with their defaults."""
    parameters = signature(theirs).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def test_the_producer_accepts_the_defaults_of_aiokafka() -> None:
    given = defaults(aiokafka.AIOKafkaProducer)
    del given["acks"]  # an object that stands for a default
    AsyncProducer(**given)
    with pytest.raises(InvalidSetting, match="partitioner=.*is not allowed"):
        AsyncProducer(**{**given, "partitioner": 1})


def test_the_consumer_accepts_the_defaults_of_aiokafka() -> None:
    consumer = AsyncConsumer("topic", **defaults(aiokafka.AIOKafkaConsumer))
    assert consumer._settings.max_poll_records == 0x7FFF_FFFF


def test_arguments_of_aiokafka_become_settings() -> None:
    given = {
        "bootstrap_servers": "localhost",
        "enable_auto_commit": True,
        "max_poll_records": None,
        "partition_assignment_strategy": [RoundRobinPartitionAssignor],
        "client_rack": None,
    }
    found = consumer_settings(consumer_arguments(given))
    assert [each.name for each in found.assignors()] == ["roundrobin"]
    assert (found.commits, found.max_poll_records, found.client_rack) == (False, 0x7FFF_FFFF, "")


def test_an_argument_without_a_counterpart_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="rebalance_timeout_ms is not supported: a rebalance may take max_poll"):
        AsyncConsumer(bootstrap_servers="localhost", rebalance_timeout_ms=1000)
    with pytest.raises(InvalidSetting, match="the user or the password of PLAIN is missing"):
        AsyncProducer(bootstrap_servers="localhost", security_protocol="SASL_SSL")


def test_an_offset_may_be_that_of_aiokafka() -> None:
    assert offset_of(5) == (5, -1, "")
    assert offset_of(aiokafka.structs.OffsetAndMetadata(5, "text")) == (5, -1, "text")
