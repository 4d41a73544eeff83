"""Tests of batches whose records contradict their headers: consumers still read the following batches."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as Partition

from tests.interop.bad_batches import BEYOND, FRAMES, HEADERS, RECORDS, good
from tests.interop.raw_client import RawClient
from tools.broker_process import BrokerProcess

LIARS = [*BEYOND.values(), *(data for data, _ in [*RECORDS.values(), *HEADERS.values(), *FRAMES.values()])]


@pytest.fixture(scope="module")
def topic(shared_broker: BrokerProcess) -> str:
    """Return a topic with two valid records before and after each bad batch."""
    with RawClient(shared_broker.address) as client:
        name = client.create_topic()
        assert client.produce(name, good()) == 0
        for liar in LIARS:
            assert client.produce(name, liar) != 0
            assert client.produce(name, good()) == 0
    return name


def test_kafka_python_reads_records_after_malformed_batches(shared_broker: BrokerProcess, topic: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=shared_broker.address, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    consumer.assign([Partition(topic, 0)])
    found = [next(consumer).offset for _ in range(2 * len(LIARS) + 2)]
    consumer.close()
    assert found == list(range(2 * len(LIARS) + 2))


def test_librdkafka_reads_records_after_malformed_batches(shared_broker: BrokerProcess, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": shared_broker.address, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int | None] = []
    while len(found) < 2 * len(LIARS) + 2 and (messages := consumer.consume(1, 10)):
        assert all(message.error() is None for message in messages)
        found += [message.offset() for message in messages]
    consumer.close()
    assert found == list(range(2 * len(LIARS) + 2))
