"""Small requests: Metadata, and Produce of one record with acks=all, for several numbers of connections
and in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tools.bench import frames, load, volume
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic

VALUE = bytes(100)


def produce(stage: Stage, connections: int, in_flight: int) -> Mapping[str, float]:
    """Produce from each connection to one partition; raise RuntimeError if an acknowledged record is missing from the
    log.
    """
    with Topic(stage.broker) as topic:
        records = frames.batch(VALUE)
        requests = [frames.produce(topic.name, index % topic.partitions, records) for index in range(connections)]
        ports = [topic.ports[index % topic.partitions] for index in range(connections)]
        cpu = CpuClock(stage.broker)
        run = load.drive(ports, requests, in_flight=in_flight)
        cpu_seconds = cpu.seconds()
        if volume.message_count(stage.broker, topic) < run.requests:
            raise RuntimeError("the broker acknowledged records that are not in the log")
        return _figures(run, cpu_seconds)


def metadata(stage: Stage, connections: int) -> Mapping[str, float]:
    """Request the metadata of one topic with four partitions from each connection."""
    with Topic(stage.broker) as topic:
        cpu = CpuClock(stage.broker)
        run = load.drive([stage.broker.port] * connections, [frames.metadata([topic.name])] * connections)
        return _figures(run, cpu.seconds())


def _figures(run: load.Load, cpu_seconds: float) -> Mapping[str, float]:
    return {
        "rate": run.rate,
        "p50": run.latency_ms(0.5),
        "p99": run.latency_ms(0.99),
        "cpu": cpu_seconds / run.requests * 1e6,
    }


FIGURES = {
    "rate": Figure("req/s", True, 0),
    "p50": Figure("p50 ms"),
    "p99": Figure("p99 ms"),
    "cpu": Figure("broker CPU us/req", digits=1),
}

ROWS = (
    Row("one-record Produce, 1 connection", FIGURES, partial(produce, connections=1, in_flight=1)),
    Row("one-record Produce, 10 connections", FIGURES, partial(produce, connections=10, in_flight=1)),
    Row("one-record Produce, 100 connections", FIGURES, partial(produce, connections=100, in_flight=1)),
    Row("one-record Produce, 10 connections x 5", FIGURES, partial(produce, connections=10, in_flight=5)),
    Row("Metadata, 10 connections", FIGURES, partial(metadata, connections=10)),
)
