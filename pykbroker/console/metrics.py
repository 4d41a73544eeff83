"""The metrics that have names of our own, made from `BrokerStatistics` at each scrape.

A metric that Kafka's JMX exporter or kafka_exporter also has is not here: it has only their name. Times are seconds,
and sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from pykbroker.console.text import Family, labels

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics
    from pykbroker.server.metrics import RouteStatistics
    from pykbroker.storage.directory.statistics import DirectoryStatistics

NS = 1e-9
BUCKET_NS_FIRST = 1024
BUCKETS_SHOWN = range(0, 25, 2)
"""The exponents of the histogram buckets, from 1 us to 17 s. Each bucket is four times as long as the previous one."""


def broker_metrics(found: BrokerStatistics) -> Iterator[Family]:
    """Yield all metric families of the broker."""
    yield from requests(found.server.requests)
    yield from connections(found)
    yield from logs(found)
    yield from upkeep(found)


def requests(routes: Iterable[RouteStatistics]) -> Iterator[Family]:
    """Yield metrics of requests by API and version, and durations by API."""
    routes = list(routes)
    counted: list[tuple[str, str, Callable[[RouteStatistics], float]]] = [
        ("requests", "Requests that were answered", lambda route: route.count),
        ("request_errors", "Requests that failed as a whole with one error code", lambda route: route.errors),
        ("request_bytes", "Bytes of requests received", lambda route: route.bytes_in),
        ("response_bytes", "Bytes of responses", lambda route: route.bytes_out),
        (
            "request_queue_seconds",
            "Seconds that requests waited before being handled",
            lambda route: route.queue_ns * NS,
        ),
        ("request_local_seconds", "Seconds of the event loop that requests used", lambda route: route.local_ns * NS),
        (
            "request_remote_seconds",
            "Seconds that requests waited for disks, replicas, coordinators or new records",
            lambda route: route.remote_ns * NS,
        ),
        (
            "response_queue_seconds",
            "Seconds that responses waited for earlier responses of their connection",
            lambda route: route.answer_queue_ns * NS,
        ),
    ]
    for name, documentation, value in counted:
        rows = [(labels(api=route.key.name, version=route.version), float(value(route))) for route in routes]
        yield Family(f"pykbroker_{name}_total", "counter", documentation, rows)
    yield durations(routes)


def durations(routes: Iterable[RouteStatistics]) -> Family:
    """Return the histogram of request durations by API. All versions of an API are counted together."""
    samples: list[tuple[str, float]] = []
    for key, versions in groupby(routes, lambda route: route.key):
        alike = list(versions)
        counts = [sum(column) for column in zip(*(route.histogram for route in alike), strict=True)]
        limits = {str((BUCKET_NS_FIRST << at) * NS): float(sum(counts[: at + 1])) for at in BUCKETS_SHOWN}
        limits["+Inf"] = float(sum(counts))
        samples += [(f"_bucket{labels(api=key.name, le=limit)}", count) for limit, count in limits.items()]
        samples.append((f"_count{labels(api=key.name)}", limits["+Inf"]))
        total = sum(route.local_ns + route.remote_ns for route in alike) * NS
        samples.append((f"_sum{labels(api=key.name)}", total))
    documentation = "Seconds from the arrival of a request to its response"
    return Family("pykbroker_request_seconds", "histogram", documentation, samples)


def connections(found: BrokerStatistics) -> Iterator[Family]:
    """Yield metrics of connections, of buffered requests and responses, and of the event loop."""
    server, sessions, net = found.server, found.fetch_sessions, found.net
    yield gauge("connections_owed", "Connections whose clients do not read their responses", server.connections_unsent)
    yield gauge(
        "connections_age_seconds", "Sum of the ages of all open connections in seconds", server.connections_age_ns * NS
    )
    yield gauge(
        "connection_oldest_seconds", "Age of the oldest open connection in seconds", server.connections_age_ns_max * NS
    )
    yield counter(
        "response_send_seconds",
        "Seconds in which connections had responses that their clients did not read",
        server.unsent_ns * NS,
    )
    yield counter("connections_accepted", "Connections that were accepted", server.connections_accepted)
    yield counter(
        "connections_refused",
        "Connections that were refused because their address reached max.connections.per.ip",
        server.connections_refused,
    )
    yield Family(
        "pykbroker_connections_closed_total",
        "counter",
        "Connections that were closed, by reason",
        [(labels(reason=ending.name.lower()), float(count)) for ending, count in server.connections_closed.items()],
    )
    yield counter(
        "accept_waits",
        "Pauses in accepting connections because of a limit or a lack of file descriptors",
        server.accept_waits,
    )
    yield gauge("requests_waiting", "Requests that are being handled", server.requests_waiting)
    yield gauge("requests_held", "Requests that delay later requests of their connection", server.requests_held)
    yield gauge("held_bytes", "Bytes of requests and responses in memory", server.held_bytes)
    yield gauge("held_bytes_max", "Memory budget for requests and responses in bytes", server.held_bytes_max)
    yield gauge("fetch_sessions", "Incremental fetch sessions", sessions.sessions)
    yield gauge("fetch_session_partitions", "Partitions in incremental fetch sessions", sessions.partitions)
    yield counter("fetch_session_evictions", "Fetch sessions that were evicted for new ones", sessions.evictions)
    yield counter("loop_idle_seconds", "Seconds in which the event loop waited", net.idle_ns * NS)
    yield counter("loop_steps", "Steps of the event loop, each between two waits for I/O", net.steps)
    yield counter("loop_steps_slow", "Steps of the event loop that took longer than 20 ms", net.steps_slow)
    yield counter("loop_busy_seconds", "Seconds in all steps of the event loop", net.step_ns * NS)
    yield gauge(
        "loop_step_longest_seconds",
        "Longest step of the event loop since the start in seconds",
        net.step_ns_longest * NS,
    )


def logs(found: BrokerStatistics) -> Iterator[Family]:
    """Yield metrics of each log directory."""
    figures: tuple[tuple[str, str, str, Callable[[DirectoryStatistics], int]], ...] = (
        ("logs", "gauge", "Open logs", lambda one: one.logs),
        ("log_segments", "gauge", "Segments of open logs", lambda one: one.segments),
        ("log_bytes", "gauge", "Bytes of record batches on disk", lambda one: one.size),
        ("log_appended_bytes_total", "counter", "Bytes of record batches appended", lambda one: one.bytes_in),
        ("log_read_bytes_total", "counter", "Bytes of record batches read", lambda one: one.bytes_out),
        ("log_flushes_total", "counter", "Flushes of logs to disk", lambda one: one.flushes),
    )
    for name, kind, documentation, value in figures:
        samples = [(labels(directory=one.path), float(value(one))) for one in found.directories]
        yield Family(f"pykbroker_{name}", kind, documentation, samples)


def upkeep(found: BrokerStatistics) -> Iterator[Family]:
    """Yield metrics of scrub passes and of changes of the metadata."""
    yield counter("scrub_passes", "Completed scrub passes over all logs", found.scrub.passes)
    yield counter("scrub_bytes", "Bytes that scrub passes read", found.scrub.bytes_read)
    yield counter(
        "scrub_damaged", "Partitions that scrub passes took offline because of damage", found.scrub.partitions_damaged
    )
    yield gauge(
        "scrub_partitions_left", "Partitions that the current scrub pass has not read", found.scrub.partitions_left
    )
    yield gauge("metadata_changes_waiting", "Metadata changes that are not committed yet", found.controller.waiting)


def gauge(name: str, documentation: str, value: float) -> Family:
    """Return a gauge without labels, whose name gets our prefix."""
    return Family(f"pykbroker_{name}", "gauge", documentation, [("", float(value))])


def counter(name: str, documentation: str, value: float) -> Family:
    """Return a counter without labels, whose name gets our prefix and `_total`."""
    return Family(f"pykbroker_{name}_total", "counter", documentation, [("", float(value))])
