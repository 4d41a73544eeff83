"""Produce and consume with confluent-kafka on four partitions with acks=all, and the speed of the disk alone."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from functools import partial

from tools.bench import volume
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic


def produce(stage: Stage, count: int, value_bytes: int) -> Mapping[str, float]:
    """Return the messages per second until the last acknowledgement, and the CPU time that the broker used."""
    with Topic(stage.broker) as topic:
        cpu = CpuClock(stage.broker)
        seconds = volume.produce(stage.broker, topic, count, bytes(value_bytes))
        return _figures(count, value_bytes, seconds, cpu.seconds())


def consume(stage: Stage, count: int, value_bytes: int) -> Mapping[str, float]:
    """Return the messages per second from the first message to the last, read from the beginning."""
    with Topic(stage.broker) as topic:
        volume.produce(stage.broker, topic, count, bytes(value_bytes))
        cpu = CpuClock(stage.broker)
        seconds = volume.consume(stage.broker, topic, count)
        return _figures(count, value_bytes, seconds, cpu.seconds())


def produce_json(stage: Stage, count: int, codec: str) -> Mapping[str, float]:
    """Return the messages per second of compressible messages of 1 KiB until the last acknowledgement."""
    with Topic(stage.broker) as topic:
        cpu = CpuClock(stage.broker)
        seconds = volume.produce(stage.broker, topic, count, *documents(), codec=codec)
        return _figures(count, 1024, seconds, cpu.seconds())


def documents() -> list[bytes]:
    """Return a thousand JSON objects of about 1 KiB each, which compress to a third of their size."""
    dice = random.Random(1)
    return [
        json.dumps({f"field_{i}": dice.choice((dice.random(), "blue", "green", i)) for i in range(40)}).encode()
        for _ in range(1000)
    ]


def write(stage: Stage) -> Mapping[str, float] | None:
    """Append to a new file, 1 MiB per call, as the broker appends a large request. No broker can be faster."""
    if stage.peer.name != "pykbroker":
        return None
    block, count = os.urandom(1 << 20), 300
    cpu, begun = time.process_time(), time.perf_counter()
    path = stage.directory()
    with path.open("ab", buffering=0) as file:
        for _ in range(count):
            file.write(block)
    figures = {
        "bytes": count * len(block) / (time.perf_counter() - begun) / 1e6,
        "cpu": (time.process_time() - cpu) / count / len(block) * 1e8,
    }
    path.unlink()
    return figures


def _figures(count: int, value_bytes: int, seconds: float, cpu_seconds: float) -> Mapping[str, float]:
    return {
        "messages": count / seconds / 1e3,
        "bytes": count * value_bytes / seconds / 1e6,
        "cpu": cpu_seconds / count * 1e6,
    }


SMALL = {"messages": Figure("k msg/s", True, 0), "cpu": Figure("broker CPU s/M msg", digits=3)}
LARGE = {"bytes": Figure("MB/s", True, 0), "cpu": Figure("broker CPU s/M msg", digits=3)}


ROWS = (
    Row("write() to a new file", {"bytes": Figure("MB/s", True, 0), "cpu": Figure("CPU s/100 MB", digits=3)}, write),
    Row("produce 100 B", SMALL, partial(produce, count=1_000_000, value_bytes=100)),
    Row("produce 1 KiB", LARGE, partial(produce, count=300_000, value_bytes=1024)),
    Row("produce 1 KiB JSON, lz4", SMALL, partial(produce_json, count=300_000, codec="lz4")),
    Row("produce 1 KiB JSON, zstd", SMALL, partial(produce_json, count=300_000, codec="zstd")),
    Row("consume 100 B", SMALL, partial(consume, count=1_000_000, value_bytes=100)),
    Row("consume 1 KiB", LARGE, partial(consume, count=300_000, value_bytes=1024)),
)
