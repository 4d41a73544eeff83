"""Settings of a consumer: what is refused, and the sentence that says why."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.client.settings import InvalidSetting
from pykbroker.consumer import Consumer
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.consumer.errors import SubscriptionConflict
from pykbroker.core.topic_partition import TopicPartition


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"group_idd": "g"}, "group_idd"),
        ({"value_deserializer": 5}, "value_deserializer=5 is not allowed: pass a function"),
        ({"interceptors": ["a.Class"]}, "interceptors: 'a.Class' is no interceptor: pass an object"),
        ({"security.protocol": "TLS"}, "security_protocol='TLS' is not allowed: use PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"group_id": ""}, "group_id"),
        ({"max_poll_records": 0}, "max_poll_records"),
        ({"auto_offset_reset": "smallest"}, "auto.offset.reset"),
        ({"isolation_level": "serializable"}, "isolation_level"),
        ({"group_protocol": "modern"}, "group_protocol"),
        ({"partition_assignment_strategy": "best"}, "best"),
        ({"group_id": "g", "session_timeout_ms": 1000, "heartbeat_interval_ms": 1000}, "heartbeat_interval_ms"),
        ({"fetch_max_wait_ms": -1}, "fetch_max_wait_ms"),
        ({"enable_auto_commit": True}, "group_id"),
        ({"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 1000}, "session_timeout_ms"),
        ({"group_id": "g", "group_remote_assignor": "uniform"}, "group_remote_assignor"),
    ],
)
def test_a_bad_setting_is_refused_with_its_name(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        consumer_settings({"bootstrap_servers": "localhost:9092"} | given)


@pytest.mark.parametrize(
    ("name", "smallest"), [("max_poll_records", 1), ("fetch_max_wait_ms", 0), ("session_timeout_ms", 3001)]
)
def test_the_smallest_values_are_allowed(name: str, smallest: int) -> None:
    found = consumer_settings({"bootstrap_servers": "localhost:9092", name: smallest, "group_id": "g"})
    assert getattr(found, name) == smallest
    with pytest.raises(InvalidSetting, match=name):
        consumer_settings({"bootstrap_servers": "localhost:9092", name: smallest - 1, "group_id": "g"})


async def test_a_name_is_no_list_of_topics() -> None:
    consumer = Consumer(bootstrap_servers="localhost:9092")
    with pytest.raises(TypeError, match="topics must be a list of names, not the text 'topic'"):
        consumer.subscribe("topic")


async def test_topics_patterns_and_assignments_exclude_each_other() -> None:
    consumer = Consumer("topic", bootstrap_servers="localhost:9092")
    with pytest.raises(SubscriptionConflict):
        consumer.assign([TopicPartition("topic", 0)])
    with pytest.raises(SubscriptionConflict):
        consumer.subscribe_pattern("t.*")
