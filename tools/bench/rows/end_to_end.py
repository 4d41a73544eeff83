"""Latency from the call of a producer to a consumer in another process, at 1,000 messages per second, on one clock."""

from __future__ import annotations

import multiprocessing
import struct
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection

from confluent_kafka import Producer, TopicPartition

from tools.bench import volume
from tools.bench.load import percentile
from tools.bench.peers import Broker
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic

MESSAGES_PER_S = 1_000
SECONDS = 6
WARM_MESSAGES = 1_000
PADDING = bytes(92)
CONSUMER_TIMEOUT_S = 30


def end_to_end(stage: Stage) -> Mapping[str, float]:
    """Measure the latency with linger 0 and otherwise default options. The first `WARM_MESSAGES` do not count."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with Topic(stage.broker) as topic:
        arguments = (stage.broker.bootstrap, topic.name, topic.partitions, theirs)
        process = context.Process(target=_consume, args=arguments, daemon=True)
        process.start()
        ours.recv()
        cpu = CpuClock(stage.broker)
        _produce(stage.broker, topic)
        cpu_seconds = cpu.seconds()
        latencies: list[float] = sorted(ours.recv()[WARM_MESSAGES:])
        process.join()
    return {
        "p50": percentile(latencies, 0.5) * 1e3,
        "p99": percentile(latencies, 0.99) * 1e3,
        "p999": percentile(latencies, 0.999) * 1e3,
        "cpu": cpu_seconds / SECONDS * 100,
    }


def _produce(broker: Broker, topic: Topic) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 0,
            "enable.idempotence": broker.peer.idempotent,
            "enable.metrics.push": False,
        }
    )
    producer.list_topics(topic.name, 10)
    begun = time.monotonic()
    for sent in range(MESSAGES_PER_S * SECONDS):
        time.sleep(max(0.0, begun + sent / MESSAGES_PER_S - time.monotonic()))
        producer.produce(topic.name, struct.pack(">d", time.monotonic()) + PADDING, partition=sent % topic.partitions)
        producer.poll(0)
    producer.flush(CONSUMER_TIMEOUT_S)


def _consume(bootstrap: str, topic: str, partitions: int, results: Connection) -> None:
    reading = volume.consumer(bootstrap, [TopicPartition(topic, index, 0) for index in range(partitions)])
    reading.poll(1)
    results.send("ready")
    latencies: list[float] = []
    while len(latencies) < MESSAGES_PER_S * SECONDS:
        message = reading.poll(CONSUMER_TIMEOUT_S)
        if message is None or message.error():
            raise RuntimeError(f"the consumer got {message and message.error()} after {len(latencies)} messages")
        latencies.append(time.monotonic() - struct.unpack_from(">d", message.value() or b"")[0])
    reading.close()
    results.send(latencies)


FIGURES = {
    "p50": Figure("p50 ms"),
    "p99": Figure("p99 ms"),
    "p999": Figure("p99.9 ms"),
    "cpu": Figure("broker CPU %", digits=0),
}

ROWS = (Row("end to end at 1,000 msg/s", FIGURES, end_to_end),)
