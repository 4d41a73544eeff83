"""Produce and consume with confluent-kafka on four partitions, acks=all, messages of 100 B and of 1 KiB."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tools.bench import volume
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic


def produce(stage: Stage, count: int, value_bytes: int) -> Mapping[str, float]:
    """Rate until the last acknowledgement, and what the broker spent on it."""
    with Topic(stage.broker) as topic:
        cpu = CpuClock(stage.broker)
        seconds = volume.produce(stage.broker, topic, count, bytes(value_bytes))
        return _figures(count, value_bytes, seconds, cpu.seconds())


def consume(stage: Stage, count: int, value_bytes: int) -> Mapping[str, float]:
    """Rate from the first message to the last, read from the beginning."""
    with Topic(stage.broker) as topic:
        volume.produce(stage.broker, topic, count, bytes(value_bytes))
        cpu = CpuClock(stage.broker)
        seconds = volume.consume(stage.broker, topic, count)
        return _figures(count, value_bytes, seconds, cpu.seconds())


def _figures(count: int, value_bytes: int, seconds: float, cpu_seconds: float) -> Mapping[str, float]:
    return {
        "messages": count / seconds / 1e3,
        "bytes": count * value_bytes / seconds / 1e6,
        "cpu": cpu_seconds / count * 1e6,
    }


SMALL = {"messages": Figure("k msg/s", True, 0), "cpu": Figure("broker CPU s/M msg", digits=3)}
LARGE = {"bytes": Figure("MB/s", True, 0), "cpu": Figure("broker CPU s/M msg", digits=3)}

ROWS = (
    Row("produce 100 B", SMALL, partial(produce, count=1_000_000, value_bytes=100)),
    Row("produce 1 KiB", LARGE, partial(produce, count=300_000, value_bytes=1024)),
    Row("consume 100 B", SMALL, partial(consume, count=1_000_000, value_bytes=100)),
    Row("consume 1 KiB", LARGE, partial(consume, count=300_000, value_bytes=1024)),
)
