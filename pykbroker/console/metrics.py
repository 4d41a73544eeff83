"""`BrokerStatistics` as families of Prometheus metrics, made at each scrape. Times in seconds, sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics
    from pykbroker.server.metrics import RouteStatistics

CONTENT_TYPE = CONTENT_TYPE_LATEST
NS = 1e-9
BUCKET_NS_FIRST = 1024
BUCKETS_SHOWN = range(0, 25, 2)
"""Of the powers of two that are counted: 1 us to 17 s, in steps of four."""


class Snapshot(Collector):
    """What is shown at one scrape."""

    def __init__(self, found: BrokerStatistics) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from requests(self._found.server.requests)
        yield from connections(self._found)
        yield from logs(self._found)
        yield from cluster(self._found)


def exposition(found: BrokerStatistics) -> bytes:
    """The text of a scrape: of the broker, and of its process (memory, descriptors, CPU)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Snapshot(found))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def requests(routes: Iterable[RouteStatistics]) -> Iterator[Metric]:
    """By API and version; how long they took by API alone."""
    routes = list(routes)
    labels = ["api", "version"]
    counted: list[tuple[str, str, Callable[[RouteStatistics], float]]] = [
        ("requests", "Requests answered", lambda route: route.count),
        ("request_errors", "Requests answered by one error as a whole", lambda route: route.errors),
        ("request_bytes", "Bytes of requests", lambda route: route.bytes_in),
        ("response_bytes", "Bytes of answers", lambda route: route.bytes_out),
        ("request_queue_seconds", "Time until it was its turn", lambda route: route.queue_ns * NS),
        ("request_local_seconds", "Time on the loop", lambda route: route.local_ns * NS),
        ("request_remote_seconds", "Time spent waiting", lambda route: route.remote_ns * NS),
        ("response_queue_seconds", "Time behind the answers before it", lambda route: route.answer_queue_ns * NS),
    ]
    for name, documentation, value in counted:
        family = CounterMetricFamily(f"pykbroker_{name}", documentation, labels=labels)
        for route in routes:
            family.add_metric([route.key.name, str(route.version)], value(route))
        yield family
    yield durations(routes)


def durations(routes: Iterable[RouteStatistics]) -> HistogramMetricFamily:
    """Of all versions of an API together."""
    family = HistogramMetricFamily("pykbroker_request_seconds", "From request to answer", labels=["api"])
    for key, versions in groupby(routes, lambda route: route.key):
        alike = list(versions)
        counts = [sum(column) for column in zip(*(route.histogram for route in alike), strict=True)]
        buckets = [(str((BUCKET_NS_FIRST << at) * NS), float(sum(counts[: at + 1]))) for at in BUCKETS_SHOWN]
        total = sum(route.local_ns + route.remote_ns for route in alike) * NS
        family.add_metric([key.name], [*buckets, ("+Inf", float(sum(counts)))], total)
    return family


def connections(found: BrokerStatistics) -> Iterator[Metric]:
    """Who is connected, what is held for them, and how long the loop was busy at a time."""
    server, sessions, net = found.server, found.fetch_sessions, found.net
    yield gauge("connections", "Connections open", server.connections_open)
    yield gauge("connections_owed", "Connections that do not take their answers", server.connections_owed)
    yield gauge("connections_age_seconds", "Age of all open connections together", server.connections_age_ns * NS)
    yield gauge("connection_oldest_seconds", "Age of the oldest", server.connections_age_ns_max * NS)
    yield counter("response_send_seconds", "Time in which connections did not take their answers", server.owed_ns * NS)
    yield counter("connections_accepted", "Connections accepted", server.connections_accepted)
    yield counter(
        "connections_refused", "Connections refused, one too many of their address", server.connections_refused
    )
    closed = CounterMetricFamily("pykbroker_connections_closed", "Connections closed, by reason", labels=["reason"])
    for ending, count in server.connections_closed.items():
        closed.add_metric([ending.name.lower()], count)
    yield closed
    yield counter("accept_waits", "How often accepting rested", server.accept_waits)
    yield gauge("requests_waiting", "Requests that wait for their answers", server.requests_waiting)
    yield gauge("requests_held", "Requests that hold back those behind them", server.requests_held)
    yield gauge("held_bytes", "Requests and answers in memory", server.held_bytes)
    yield gauge("held_bytes_max", "How much of them there may be", server.held_bytes_max)
    yield gauge("fetch_sessions", "Fetch sessions", sessions.sessions)
    yield gauge("fetch_session_partitions", "Partitions in fetch sessions", sessions.partitions)
    yield counter("fetch_session_evictions", "Fetch sessions that had to go for others", sessions.evictions)
    yield counter("loop_idle_seconds", "Time in which the loop waited", net.idle_ns * NS)
    yield counter("loop_steps", "What the loop did between two waits", net.steps)
    yield counter("loop_steps_slow", "Those that took more than 20 ms", net.steps_slow)
    yield counter("loop_busy_seconds", "Time in all of them", net.step_ns * NS)
    yield gauge("loop_step_longest_seconds", "The longest of them since the start", net.step_ns_longest * NS)


def logs(found: BrokerStatistics) -> Iterator[Metric]:
    """By log directory."""
    labels = ["directory"]
    families: tuple[GaugeMetricFamily | CounterMetricFamily, ...] = (
        GaugeMetricFamily("pykbroker_log_directory_up", "1 unless the directory has failed", labels=labels),
        GaugeMetricFamily("pykbroker_logs", "Logs that are open", labels=labels),
        GaugeMetricFamily("pykbroker_log_segments", "Segments of logs", labels=labels),
        GaugeMetricFamily("pykbroker_log_bytes", "Record batches on disk", labels=labels),
        CounterMetricFamily("pykbroker_log_appended_bytes", "Record batches appended", labels=labels),
        CounterMetricFamily("pykbroker_log_read_bytes", "Record batches read", labels=labels),
        CounterMetricFamily("pykbroker_log_flushes", "Flushes of logs to the device", labels=labels),
    )
    for one in found.directories:
        values = (not one.failed, one.logs, one.segments, one.size, one.bytes_in, one.bytes_out, one.flushes)
        for family, value in zip(families, values, strict=True):
            family.add_metric([one.path], value)
    yield from families


def cluster(found: BrokerStatistics) -> Iterator[Metric]:
    """Partitions of this broker, and the cluster as it knows it."""
    replicas, controller = found.replicas, found.controller
    yield gauge("partitions", "Partitions of this broker", replicas.partitions)
    yield gauge("partitions_led", "Partitions that this broker leads", replicas.leaders)
    yield gauge("partitions_offline", "Partitions of this broker that cannot be served", replicas.offline)
    yield counter("scrub_passes", "Passes over all logs that found what does not hold", found.scrub.passes)
    yield counter("scrub_bytes", "Bytes read by them", found.scrub.bytes_read)
    yield counter("scrub_damaged", "Partitions that they took offline", found.scrub.partitions_damaged)
    yield gauge("scrub_partitions_left", "Partitions that the pass under way has not seen", found.scrub.partitions_left)
    yield gauge("cluster_brokers", "Brokers of the cluster", controller.brokers)
    yield gauge("cluster_topics", "Topics of the cluster", controller.topics)
    yield gauge("cluster_partitions", "Partitions of the cluster", controller.partitions)
    yield gauge("metadata_epoch", "Epoch of the controller", controller.epoch)
    yield gauge("metadata_offset", "Last record of the metadata log that is applied", controller.offset)
    yield gauge("metadata_changes_waiting", "Changes of metadata that are not committed", controller.waiting)


def gauge(name: str, documentation: str, value: float) -> Metric:
    """What may fall, too."""
    return GaugeMetricFamily(f"pykbroker_{name}", documentation, value)


def counter(name: str, documentation: str, value: float) -> Metric:
    """What only rises."""
    return CounterMetricFamily(f"pykbroker_{name}", documentation, value)
