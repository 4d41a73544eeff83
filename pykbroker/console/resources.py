"""The event loop, the connections, the log directories and the devices, with the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykbroker.console.text import Family, labels
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
    """Yield the idle share of the event loop, the connections by listener, the failed log directories, and the I/O."""
    for name, documentation in IDLE:
        yield Family(name, "gauge", documentation, [("", found.net.idle_share)])
    yield Family(
        "kafka_server_socket_server_metrics_connection_count",
        "gauge",
        "Open connections of a listener",
        [
            (labels(listener=listener, networkProcessor=0), count)
            for listener, count in found.server.connections_open.items()
        ],
    )
    yield Family(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "gauge",
        "Log directories that have failed",
        [("", sum(one.failed for one in found.directories))],
    )
    yield Family(
        "kafka_log_logmanager_logdirectoryoffline",
        "gauge",
        "1 for a log directory that has failed, else 0",
        [(labels(logDirectory=one.path), int(one.failed)) for one in found.directories],
    )
    moved = storage_bytes()
    if moved is not None:
        for verb, documentation, value in (
            ("read", "Bytes that this process has caused devices to read", moved.read),
            ("write", "Bytes that this process has caused devices to write", moved.written),
        ):
            yield Family(f"kafka_server_kafkaserver_linux_disk_{verb}_bytes", "gauge", documentation, [("", value)])
