"""The event loop, connections, log directories and devices, with the names of Kafka's JMX exporter, and the process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector

from pykbroker.console.text import Family, family_text, gauge, labels
from pykbroker.world.process_io import storage_bytes

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics

IDLE = (
    (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "Share of the last 30 to 60 s in which the event loop, which handles all requests, waited; from 0 to 1",
    ),
    (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "Share of the last 30 to 60 s in which the event loop, which serves all connections, waited; from 0 to 1",
    ),
)
"""The names and HELP texts of the idle share of Kafka's request handlers and of its network threads."""


def resource_families(found: BrokerStatistics) -> Iterator[Family]:
    """Yield the idle share of the event loop, the connections by listener, and the failed log directories."""
    for name, documentation in IDLE:
        yield gauge(name, documentation, found.net.idle_share)
    yield Family(
        "kafka_server_socket_server_metrics_connection_count",
        "gauge",
        "Open connections of a listener",
        [
            (labels(listener=listener, networkProcessor=0), count)
            for listener, count in found.server.connections_open.items()
        ],
    )
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that have failed",
        sum(one.failed for one in found.directories),
    )
    yield Family(
        "kafka_log_logmanager_logdirectoryoffline",
        "gauge",
        "1 for a log directory that has failed, else 0",
        [(labels(logDirectory=one.path), int(one.failed)) for one in found.directories],
    )


def process_text() -> str:
    """Return the metrics of the process in Prometheus' text format. Call it off the event loop.

    With 10,000 open files, listing them takes 10 ms.
    """
    return "".join(chain.from_iterable(map(family_text, chain(process_families(), storage_families()))))


def process_families() -> Iterator[Family]:
    """Yield the metrics that prometheus_client has of a process."""
    for metric in ProcessCollector(registry=CollectorRegistry(auto_describe=False)).collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        yield Family(name, metric.type, metric.documentation, [("", float(each.value)) for each in metric.samples])


def storage_families() -> Iterator[Family]:
    """Yield the bytes that the process moves from and to devices, where the system counts them."""
    moved = storage_bytes()
    if moved is not None:
        for verb, documentation, value in (
            ("read", "Bytes that this process has caused devices to read", moved.read),
            ("write", "Bytes that this process has caused devices to write", moved.written),
        ):
            yield gauge(f"kafka_server_kafkaserver_linux_disk_{verb}_bytes", documentation, value)
