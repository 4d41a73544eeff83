"""Our producer beside kafka-python, aiokafka and confluent-kafka, against one broker: rate and CPU time of the client.

    .venv/bin/python -m tools.bench.producers [--runs 5] [--server HOST:PORT] [--only 'NAME;...']

Every client sends 100-byte records with acks=all and linger 5 ms to a topic of one partition, in a process of its own.
The clients are measured in turn, and the table has the median of all runs.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pyarrow
import trio
from confluent_kafka.admin import AdminClient, NewTopic

from pykbroker.kafka import KafkaProducer
from pykbroker.producer import AsyncProducer, Producer
from tools.bench.clients import THIS_PYTHON, Measured, in_a_process, latency, main, percentiles, timed

VALUE = bytes(100)
UNLIKE = [bytes(60 + number * 7919 % 81) for number in range(1000)]
KEYS = [b"key-%04d" % number for number in range(1000)]
LARGE_BATCH = {"batch_size": 1_000_000, "max_request_size": 2_000_000}
"""The batch size that librdkafka has by default."""
AWAITED = 2000


def kafka_python(
    server: str, topic: str, threads: int = 1, make: Any = None, count: int = 50_000, **settings: Any
) -> Measured:
    """Send from threads through kafka-python's interface."""
    producer = (make or kafka.KafkaProducer)(bootstrap_servers=server, linger_ms=5, **settings)
    producer.send(topic, VALUE).get(30)

    def send() -> None:
        for _ in range(count // threads):
            producer.send(topic, VALUE)

    with timed(count) as found:
        workers = [threading.Thread(target=send) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        producer.flush()
    producer.close()
    return found


def kafka_python_awaited(server: str, topic: str) -> Measured:
    """Send one record at a time through kafka-python, each after the answer to the one before."""
    producer = kafka.KafkaProducer(bootstrap_servers=server)
    latencies: list[float] = []
    for _ in range(AWAITED):
        with latency(latencies):
            producer.send(topic, VALUE).get(30)
    producer.close()
    return percentiles(latencies)


def ours_in_threads(server: str, topic: str, threads: int = 1) -> Measured:
    """Send from threads through our drop-in."""
    return kafka_python(server, topic, threads, KafkaProducer, 200_000)


def with_aiokafka(server: str, topic: str, make: Any = aiokafka.AIOKafkaProducer, count: int = 100_000) -> Measured:
    """Send on asyncio through aiokafka's interface."""

    async def main() -> Measured:
        producer = make(bootstrap_servers=server, acks="all", linger_ms=5, **extra)
        await producer.start()
        await producer.send_and_wait(topic, VALUE)
        with timed(count) as found:
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
        await producer.stop()
        return found

    extra: dict[str, Any] = {} if make is AsyncProducer else {"enable_idempotence": True}
    return asyncio.run(main())


def aiokafka_lz4(server: str, topic: str) -> Measured:
    """Send on asyncio through aiokafka, with lz4."""
    return with_aiokafka(
        server, topic, lambda **settings: aiokafka.AIOKafkaProducer(compression_type="lz4", **settings)
    )


def aiokafka_awaited(server: str, topic: str) -> Measured:
    """Send one record at a time through aiokafka, each after the answer to the one before."""

    async def main() -> Measured:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=server, acks="all")
        await producer.start()
        latencies: list[float] = []
        for _ in range(AWAITED):
            with latency(latencies):
                await producer.send_and_wait(topic, VALUE)
        await producer.stop()
        return percentiles(latencies)

    return asyncio.run(main())


def confluent(
    server: str, topic: str, count: int = 1_000_000, values: list[bytes] | None = None, codec: str = "none"
) -> Measured:
    """Send through librdkafka, with a call for each record."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": codec,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    values = values or [VALUE]
    with timed(count) as found:
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, values[number % len(values)])
                    break
                except BufferError:
                    producer.poll(0.05)
            if not number % 1000:
                producer.poll(0)
        producer.flush()
    return found


def confluent_awaited(server: str, topic: str) -> Measured:
    """Send one record at a time through librdkafka, each after the answer to the one before."""
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "acks": "all", "linger.ms": 0})
    latencies: list[float] = []
    for _ in range(AWAITED):
        with latency(latencies):
            producer.produce(topic, VALUE)
            producer.flush()
    return percentiles(latencies)


def on_trio(work: Callable[[Producer, str], Awaitable[Measured]], **settings: Any) -> Callable[[str, str], Measured]:
    """Return a measurement of our producer on trio."""

    def measure(server: str, topic: str) -> Measured:
        async def main() -> Measured:
            async with Producer(bootstrap_servers=server, **settings) as producer:
                await (await producer.send(topic, VALUE))
                return await work(producer, topic)

        return trio.run(main)

    return measure


async def send(producer: Producer, topic: str, count: int = 300_000) -> Measured:
    """Send records one by one."""
    with timed(count) as found:
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
    return found


async def send_awaited(producer: Producer, topic: str) -> Measured:
    """Send one record at a time, each after the answer to the one before."""
    latencies: list[float] = []
    for _ in range(AWAITED):
        with latency(latencies):
            await (await producer.send(topic, VALUE))
    return percentiles(latencies)


def send_columns(
    values: list[bytes], keys: list[bytes] | None = None, *, as_table: bool = False
) -> Callable[[Producer, str], Awaitable[Measured]]:
    """Return a measurement of columns of a million rows, or of an Arrow table that has only values."""

    async def measure(producer: Producer, topic: str) -> Measured:
        rows = values * (1_000_000 // len(values))
        key_rows = None if keys is None else keys * (len(rows) // len(keys))
        content = pyarrow.table({"value": rows}) if as_table else rows
        with timed(len(rows)) as found:
            await (await producer.send_many(topic, content, key_rows))
        return found

    return measure


CLIENTS: dict[str, Callable[[str, str], Measured]] = {
    "kafka-python": kafka_python,
    "aiokafka": with_aiokafka,
    "confluent-kafka": confluent,
    "confluent-kafka, unlike sizes": lambda server, topic: confluent(server, topic, values=UNLIKE),
    "kafka-python, lz4": lambda server, topic: kafka_python(server, topic, compression_type="lz4"),
    "aiokafka, lz4": aiokafka_lz4,
    "confluent-kafka, lz4": lambda server, topic: confluent(server, topic, codec="lz4"),
    "kafka-python, awaited": kafka_python_awaited,
    "aiokafka, awaited": aiokafka_awaited,
    "confluent-kafka, awaited": confluent_awaited,
    "send": on_trio(send),
    "send, batch.size 1 MB": on_trio(send, **LARGE_BATCH),
    "send, lz4": on_trio(send, compression_type="lz4"),
    "send, awaited": on_trio(send_awaited, linger_ms=0),
    "AsyncProducer": lambda server, topic: with_aiokafka(server, topic, AsyncProducer, 200_000),
    "KafkaProducer": ours_in_threads,
    "KafkaProducer, 4 threads": lambda server, topic: ours_in_threads(server, topic, 4),
    "send_many": on_trio(send_columns([VALUE]), **LARGE_BATCH),
    "send_many, defaults": on_trio(send_columns([VALUE])),
    "send_many, batch.size 16 KiB": on_trio(send_columns([VALUE]), batch_size=16_384),
    "send_many, unlike sizes": on_trio(send_columns(UNLIKE), **LARGE_BATCH),
    "send_many, Arrow table": on_trio(send_columns([VALUE], as_table=True), **LARGE_BATCH),
    "send_many, keys": on_trio(send_columns([VALUE] * len(KEYS), KEYS), **LARGE_BATCH),
}


@contextmanager
def topic_of(server: str) -> Iterator[str]:
    """Create a topic, and delete it after the block."""
    topic = f"producers-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": server})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    yield topic
    admin.delete_topics([topic])[topic].result()


def measure(name: str, server: str, python: Sequence[str] = THIS_PYTHON) -> Measured:
    """Measure one client with a topic of its own."""
    with topic_of(server) as topic:
        return in_a_process("tools.bench.producers", name, server, topic, python)


if __name__ == "__main__":
    main(__doc__ or "", CLIENTS, measure)
