"""The values that the producers here send, and how often each is in the topic."""

from __future__ import annotations

from collections import Counter

from pykbroker.kafka import KafkaConsumer, TopicPartition

VALUE_BYTES = 100


def padded(text: str) -> bytes:
    """Return a text as a value of VALUE_BYTES."""
    return text.encode().ljust(VALUE_BYTES, b".")


def plain(value: bytes) -> str:
    """Return the text of a value."""
    return value.decode().rstrip(".")


def values_of(servers: str, topic: str) -> Counter[str]:
    """Return how often each text is in a topic."""
    found: Counter[str] = Counter()
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, index) for index in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            for columns in consumer.poll_columns(1000):
                found.update(plain(value) for value in columns.values if value is not None)
    return found
