"""Volume through librdkafka, the fastest client, for rows that produce and consume and for warming up brokers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tools.bench.peers import Broker
from tools.bench.row import Topic

ANY_PARTITION = -1
AT_ONCE = 10_000
"""The number of messages passed to the client in one call. A call for each message costs more than the broker does."""
QUEUED_MAX = 1_000_000
DRAIN_TIMEOUT_S = 300


def produce(
    broker: Broker,
    topic: Topic,
    count: int,
    *values: bytes,
    codec: str = "none",
    spread: bool = False,
    options: Mapping[str, str] = {},
) -> float:
    """Produce `count` messages with acks=all, using the values in turn; return the seconds until the last
    acknowledgement.

    librdkafka fills one partition after another, in large batches, unless `spread` is set. `options` are further ones
    of the client, such as those for another listener.
    """
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": "all",
            "enable.idempotence": broker.peer.idempotent,
            "enable.metrics.push": False,
            "compression.type": codec,
            "queue.buffering.max.messages": QUEUED_MAX,
            "queue.buffering.max.kbytes": 1_048_576,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
            **options,
        }
    )
    producer.list_topics(topic.name, 10)
    places = range(topic.partitions) if spread else (ANY_PARTITION,)
    messages = [{"value": values[i % len(values)]} for i in range(AT_ONCE)]
    begun = time.perf_counter()
    for sent in range(0, count, AT_ONCE):
        some = messages[: count - sent]
        while len(producer) > QUEUED_MAX - AT_ONCE:
            producer.poll(0.01)
        for index, place in enumerate(places):
            share = some[index :: len(places)]
            if producer.produce_batch(topic.name, share, place) < len(share):
                raise RuntimeError(f"the client refused messages: {share[0]}")
        producer.poll(0)
    left = producer.flush(DRAIN_TIMEOUT_S)
    if left or failed:
        raise RuntimeError(f"{left} messages not acknowledged, {len(failed)} failed: {failed[:1]}")
    return time.perf_counter() - begun


def consumer(bootstrap: str, assignment: Iterable[TopicPartition], options: Mapping[str, str] = {}) -> Consumer:
    """Return a consumer without a group that reads these partitions from the given offsets."""
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.metrics.push": False,
            # Without these two options, the consumer pauses for a second whenever 100,000 fetched messages are unread.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            **options,
        }
    )
    made.assign(list(assignment))
    return made


def consume(broker: Broker, topic: Topic, count: int, options: Mapping[str, str] = {}) -> float:
    """Read `count` messages from the beginning of all partitions; return the seconds from the first to the last."""
    beginnings = [TopicPartition(topic.name, index, 0) for index in range(topic.partitions)]
    reading = consumer(broker.bootstrap, beginnings, options)
    try:
        got = len(reading.consume(1, DRAIN_TIMEOUT_S))
        begun = time.perf_counter()
        while got < count:
            messages = reading.consume(min(10_000, count - got), DRAIN_TIMEOUT_S)
            if not messages:
                raise RuntimeError(f"{got} of {count} messages arrived")
            got += len(messages)
        return time.perf_counter() - begun
    finally:
        reading.close()


def message_count(broker: Broker, topic: Topic) -> int:
    """Return the total number of offsets in the partitions of a topic."""
    reading = consumer(broker.bootstrap, [])
    try:
        partitions = [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        marks = [reading.get_watermark_offsets(partition, DRAIN_TIMEOUT_S) for partition in partitions]
        return sum(high - low for low, high in marks)
    finally:
        reading.close()
