"""Our consumer beside kafka-python, aiokafka and confluent-kafka, against one broker: its rate and its CPU time.

    .venv/bin/python -m tools.bench.consumers [--runs 5] [--server HOST:PORT] [--only 'NAME;...']

Every client reads records of 100 bytes from a topic of one partition, in a process of its own. The topics are filled
once, in batches of 1 MB. The clients are measured in turn, and the table has the median of all runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import trio
from confluent_kafka.admin import AdminClient, NewTopic

from pykbroker.consumer import AsyncConsumer, CommittedOffset, Consumer
from pykbroker.kafka import KafkaConsumer
from pykbroker.producer import Producer
from tools.bench.clients import THIS_PYTHON, Measured, in_a_process, latency, main, percentiles, timed
from tools.bench.producers import KEYS, LARGE_BATCH, UNLIKE

RECORDS, SLOW_RECORDS = 1_000_000, 100_000
EQUAL = [os.urandom(100) for _ in range(1000)]
COPIES = 300
TOPICS: dict[str, tuple[list[bytes], list[bytes] | None, dict[str, Any]]] = {
    "consumers-equal": (EQUAL, None, LARGE_BATCH),
    "consumers-unlike": (UNLIKE, None, LARGE_BATCH),
    "consumers-keyed": (EQUAL, KEYS, LARGE_BATCH),
    "consumers-small": (EQUAL, None, {"batch_size": 16_384}),
}
"""The values, the keys and the settings of the producer of each topic."""
QUICK = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 5}
"""With the defaults of librdkafka, a partition stops for a second whenever 100,000 messages are queued."""


@cache
def filled(server: str) -> None:
    """Create the topics, unless the broker has them."""

    async def fill(topic: str) -> None:
        values, keys, settings = TOPICS[topic]
        async with Producer(bootstrap_servers=server, **settings) as producer:
            for _ in range(RECORDS // len(values) // 10):
                await producer.send_many(topic, values * 10, None if keys is None else keys * 10, partition=0)

    admin = AdminClient({"bootstrap.servers": server})
    for topic in TOPICS.keys() - admin.list_topics(timeout=30).topics.keys():
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        trio.run(fill, topic)


def kafka_python(server: str, topic: str, make: Any = None, count: int = SLOW_RECORDS) -> Measured:
    """Iterate through kafka-python's interface."""
    consumer = (make or kafka.KafkaConsumer)(topic, bootstrap_servers=server, auto_offset_reset="earliest")
    next(consumer)
    with timed(count) as found:
        for _ in range(count):
            next(consumer)
    consumer.close()
    return found


def kafka_python_poll(server: str, topic: str, make: Any = None, count: int = SLOW_RECORDS) -> Measured:
    """Poll through kafka-python's interface."""
    consumer = (make or kafka.KafkaConsumer)(topic, bootstrap_servers=server, auto_offset_reset="earliest")
    consumer.poll(10_000)
    with timed(count) as found:
        left = count
        while left > 0:
            left -= sum(map(len, consumer.poll(1000).values()))
    consumer.close()
    return found


def with_aiokafka(one_by_one: bool, make: Any, count: int) -> Callable[[str, str], Measured]:
    """Return a measurement through aiokafka's interface, by `async for` or by `getmany`."""

    async def read(consumer: Any) -> None:
        left = count
        if one_by_one:
            async for _ in consumer:
                left -= 1
                if left <= 0:
                    return
        while left > 0:
            left -= sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))

    async def measure(server: str, topic: str) -> Measured:
        consumer = make(topic, bootstrap_servers=server, auto_offset_reset="earliest")
        await consumer.start()
        await consumer.getone()
        with timed(count) as found:
            await read(consumer)
        await consumer.stop()
        return found

    return lambda server, topic: asyncio.run(measure(server, topic))


def confluent(server: str, topic: str) -> Measured:
    """Read lists of up to 10,000 messages through librdkafka."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server, "group.id": "bench", "auto.offset.reset": "earliest", **QUICK}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    consumer.consume(1, 10)
    with timed(RECORDS - 1) as found:
        left = RECORDS - 1
        while left > 0:
            left -= len(consumer.consume(min(10_000, left), 1))
    consumer.close()
    return found


def on_trio(work: Callable[[Consumer], Awaitable[None]], **settings: Any) -> Callable[[str, str], Measured]:
    """Return a measurement of our consumer on trio."""

    async def measure(server: str, topic: str) -> Measured:
        async with Consumer(topic, bootstrap_servers=server, auto_offset_reset="earliest", **settings) as consumer:
            await consumer.poll(records_max=1)
            with timed(RECORDS - 1) as found:
                await work(consumer)
        return found

    return lambda server, topic: trio.run(measure, server, topic)


async def iterate(consumer: Consumer) -> None:
    """Read the records one by one."""
    left = RECORDS - 1
    async for _ in consumer:
        left -= 1
        if left <= 0:
            return


async def poll(consumer: Consumer) -> None:
    """Read lists of up to 500 records."""
    left = RECORDS - 1
    while left > 0:
        left -= len(await consumer.poll())


async def columns(consumer: Consumer) -> None:
    """Read the columns of whole batches."""
    left = RECORDS - 1
    while left > 0:
        left -= sum(map(len, await consumer.poll_columns()))


def copy_ours(server: str, topic: str) -> Measured:
    """Copy ten records in each transaction, from poll to commit."""

    async def measure() -> Measured:
        group = f"copy-{time.time_ns()}"
        settings: dict[str, Any] = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        latencies: list[float] = []
        async with (
            Producer(bootstrap_servers=server, transactional_id=group) as producer,
            Consumer(topic, bootstrap_servers=server, max_poll_records=10, **settings) as consumer,
        ):
            await producer.init_transactions()
            for _ in range(COPIES):
                with latency(latencies):
                    records = await consumer.poll()
                    async with producer.transaction():
                        for record in records:
                            await producer.send("copy", record.value)
                        last = max(records, key=lambda record: record.offset)
                        for_commit = {next(iter(consumer.assignment)): CommittedOffset(last.offset + 1)}
                        await producer.send_offsets_to_transaction(for_commit, consumer.group_member())
        return percentiles(latencies)

    return trio.run(measure)


def copy_with_aiokafka(server: str, topic: str) -> Measured:
    """Copy ten records in each transaction through aiokafka."""

    async def measure() -> Measured:
        group = f"copy-{time.time_ns()}"
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=server, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=server, transactional_id=group)
        await consumer.start()
        await producer.start()
        latencies: list[float] = []
        for _ in range(COPIES):
            with latency(latencies):
                batches = await consumer.getmany(timeout_ms=1000, max_records=10)
                async with producer.transaction():
                    for place, records in batches.items():
                        for record in records:
                            await producer.send("copy", record.value)
                        await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, group)
        await producer.stop()
        await consumer.stop()
        return percentiles(latencies)

    return asyncio.run(measure())


def copy_with_kafka_python(server: str, topic: str) -> Measured:
    """Copy ten records in each transaction through kafka-python."""
    group = f"copy-{time.time_ns()}"
    settings: dict[str, Any] = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=server, max_poll_records=10, **settings)
    producer = kafka.KafkaProducer(bootstrap_servers=server, transactional_id=group)
    producer.init_transactions()
    latencies: list[float] = []
    for _ in range(COPIES):
        with latency(latencies):
            batches = consumer.poll(1000)
            producer.begin_transaction()
            for place, records in batches.items():
                for record in records:
                    producer.send("copy", record.value)
                offsets = {place: kafka.OffsetAndMetadata(records[-1].offset + 1, "", -1)}
                producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()
    producer.close()
    consumer.close()
    return percentiles(latencies)


def copy_with_confluent(server: str, topic: str) -> Measured:
    """Copy ten records in each transaction through librdkafka."""
    group = f"copy-{time.time_ns()}"
    settings = {"bootstrap.servers": server, "group.id": group, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "transactional.id": group, "linger.ms": 0})
    producer.init_transactions()
    latencies: list[float] = []
    for _ in range(COPIES):
        with latency(latencies):
            records = consumer.consume(10, 1)
            producer.begin_transaction()
            for record in records:
                producer.produce("copy", record.value())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            producer.commit_transaction()
    consumer.close()
    return percentiles(latencies)


CLIENTS: dict[str, Callable[[str, str], Measured]] = {
    "kafka-python": kafka_python,
    "kafka-python, poll": kafka_python_poll,
    "aiokafka": with_aiokafka(True, aiokafka.AIOKafkaConsumer, 200_000),
    "aiokafka, getmany": with_aiokafka(False, aiokafka.AIOKafkaConsumer, 500_000),
    "confluent-kafka": confluent,
    "confluent-kafka, unlike sizes": confluent,
    "confluent-kafka, keys": confluent,
    "async for": on_trio(iterate),
    "poll": on_trio(poll),
    "poll, batches of 16 KiB": on_trio(poll),
    "KafkaConsumer": lambda server, topic: kafka_python(server, topic, KafkaConsumer, 500_000),
    "KafkaConsumer, poll": lambda server, topic: kafka_python_poll(server, topic, KafkaConsumer, 500_000),
    "AsyncConsumer": with_aiokafka(True, AsyncConsumer, 500_000),
    "AsyncConsumer, getmany": with_aiokafka(False, AsyncConsumer, 500_000),
    "poll_columns": on_trio(columns),
    "poll_columns, batches of 16 KiB": on_trio(columns),
    "poll_columns, unlike sizes": on_trio(columns),
    "poll_columns, keys": on_trio(columns),
    "transactional copy": copy_ours,
    "transactional copy, aiokafka": copy_with_aiokafka,
    "transactional copy, kafka-python": copy_with_kafka_python,
    "transactional copy, confluent-kafka": copy_with_confluent,
}
TOPIC_OF = {"unlike sizes": "consumers-unlike", "keys": "consumers-keyed", "batches of 16 KiB": "consumers-small"}


def measure(name: str, server: str, python: Sequence[str] = THIS_PYTHON) -> Measured:
    """Measure one client."""
    filled(server)
    topic = TOPIC_OF.get(name.partition(", ")[2], "consumers-equal")
    return in_a_process("tools.bench.consumers", name, server, topic, python)


if __name__ == "__main__":
    main(__doc__ or "", CLIENTS, measure)
