"""Tests of the metrics, and of the endpoint over a real socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from pykbroker.broker import BrokerStatistics
from pykbroker.console.endpoint import serve
from pykbroker.console.metrics import exposition
from pykbroker.core.fetch.session_cache import Statistics as SessionStatistics
from pykbroker.quorum.statistics import ControllerStatistics
from pykbroker.replica.scrubber import ScrubStatistics
from pykbroker.replica.statistics import ReplicaStatistics
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.metrics import RouteStatistics, ServerStatistics
from pykbroker.server.table import HISTOGRAM_BUCKETS
from pykbroker.storage.directory.statistics import DirectoryStatistics
from pykbroker.world.net import NetStatistics
from wire.api import ApiKey


def histogram(**counts: int) -> tuple[int, ...]:
    return tuple(counts.get(f"at{bucket}", 0) for bucket in range(HISTOGRAM_BUCKETS))


FOUND = BrokerStatistics(
    server=ServerStatistics(
        requests=(
            RouteStatistics(ApiKey.PRODUCE, 11, 3, 1, 300, 30, 7_000_000, 4_000_000, 0, 0, histogram(at0=1, at3=2)),
            RouteStatistics(
                ApiKey.PRODUCE, 12, 2, 0, 200, 20, 0, 1_000_000, 5_000_000_000, 6_000_000, histogram(at4=1, at39=1)
            ),
            RouteStatistics(ApiKey.FETCH, 18, 0, 0, 0, 0, 0, 0, 0, 0, histogram()),
        ),
        requests_waiting=4,
        requests_held=1,
        connections_open=7,
        connections_unsent=3,
        unsent_ns=8_000_000,
        connections_age_ns=9_000_000_000,
        connections_age_ns_max=5_000_000_000,
        connections_accepted=9,
        connections_refused=2,
        connections_closed={next(iter(ConnectionEnding)): 2},
        accept_waits=5,
        held_bytes=1000,
        held_bytes_max=2000,
    ),
    fetch_sessions=SessionStatistics(1, 8, 2),
    net=NetStatistics(100, 1, 2_000_000_000, 30_000_000, 18_000_000_000),
    directories=(
        DirectoryStatistics("/d/a", False, 3, 5, 900, 1000, 400, 2),
        DirectoryStatistics('/d/"b"', True, 0, 0, 0, 0, 0, 0),
    ),
    replicas=ReplicaStatistics(3, 2, 1),
    scrub=ScrubStatistics(2, 12_345, 1, 6),
    controller=ControllerStatistics(4, 77, 1, 2, 3, 0),
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """Parse metrics as Prometheus does."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_statistic_is_exported_under_its_metric() -> None:
    found = samples(exposition(FOUND).decode())

    def of(name: str, **labels: str) -> float:
        return found[f"pykbroker_{name}", tuple(sorted(labels.items()))]

    assert of("requests_total", api="PRODUCE", version="11") == 3
    assert of("request_errors_total", api="PRODUCE", version="11") == 1
    assert of("request_bytes_total", api="PRODUCE", version="12") == 200
    assert of("response_bytes_total", api="PRODUCE", version="12") == 20
    assert of("request_local_seconds_total", api="PRODUCE", version="11") == pytest.approx(0.004)
    assert of("request_remote_seconds_total", api="PRODUCE", version="12") == pytest.approx(5)
    assert of("requests_total", api="FETCH", version="18") == 0
    assert (of("connections"), of("connections_accepted_total"), of("connections_refused_total")) == (7, 9, 2)
    assert of("connections_closed_total", reason=next(iter(ConnectionEnding)).name.lower()) == 2
    assert (of("requests_waiting"), of("requests_held"), of("held_bytes"), of("held_bytes_max")) == (4, 1, 1000, 2000)
    assert (of("fetch_sessions"), of("fetch_session_partitions"), of("fetch_session_evictions_total")) == (1, 8, 2)
    assert (of("loop_steps_total"), of("loop_steps_slow_total"), of("accept_waits_total")) == (100, 1, 5)
    assert of("request_queue_seconds_total", api="PRODUCE", version="11") == pytest.approx(0.007)
    assert of("response_queue_seconds_total", api="PRODUCE", version="12") == pytest.approx(0.006)
    assert (of("connections_owed"), of("connections_age_seconds"), of("connection_oldest_seconds")) == (3, 9, 5)
    assert of("response_send_seconds_total") == pytest.approx(0.008)
    assert of("loop_busy_seconds_total") == pytest.approx(2)
    assert of("loop_idle_seconds_total") == pytest.approx(18)
    assert of("loop_step_longest_seconds") == pytest.approx(0.03)
    figures = (
        "log_directory_up",
        "logs",
        "log_segments",
        "log_bytes",
        "log_appended_bytes_total",
        "log_read_bytes_total",
        "log_flushes_total",
    )
    assert [of(name, directory="/d/a") for name in figures] == [1, 3, 5, 900, 1000, 400, 2]
    assert of("log_directory_up", directory='/d/"b"') == 0
    assert (of("partitions"), of("partitions_led"), of("partitions_offline")) == (3, 2, 1)
    assert (of("scrub_passes_total"), of("scrub_bytes_total")) == (2, 12_345)
    assert (of("scrub_damaged_total"), of("scrub_partitions_left")) == (1, 6)
    assert (of("cluster_brokers"), of("cluster_topics"), of("cluster_partitions")) == (1, 2, 3)
    assert (of("metadata_epoch"), of("metadata_offset"), of("metadata_changes_waiting")) == (4, 77, 0)
    assert found["process_resident_memory_bytes", ()] > 0


def test_durations_of_all_versions_of_an_api_are_one_histogram() -> None:
    found = samples(exposition(FOUND).decode())
    of_produce = {
        dict(labels)["le"]: value
        for (name, labels), value in found.items()
        if name == "pykbroker_request_seconds_bucket" and dict(labels)["api"] == "PRODUCE"
    }
    counts = [of_produce[le] for le in sorted(of_produce, key=float)]
    assert counts == [1, 1, 4, *[4] * 10, 5]
    assert float(sorted(of_produce, key=float)[2]) == pytest.approx(1024e-9 * 16)
    labels = (("api", "PRODUCE"),)
    assert found["pykbroker_request_seconds_count", labels] == 5
    assert found["pykbroker_request_seconds_sum", labels] == pytest.approx(5.005)


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Send a request and return the (head, body) of the answer, until the server closes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request + b"Host: x\r\nConnection: close\r\n\r\n")
        data = b"".join([part async for part in stream])
    head, _, body = data.partition(b"\r\n\r\n")
    return head.lower(), body


async def served(statistics: Callable[[], Any], nursery: trio.Nursery) -> int:
    bound = socket.create_server(("127.0.0.1", 0))
    port: int = bound.getsockname()[1]
    off_loop: Any = trio.to_thread.run_sync
    nursery.start_soon(serve, bound.detach(), statistics, off_loop)
    return port


async def test_the_endpoint_serves_metrics_to_prometheus() -> None:
    async with trio.open_nursery() as nursery:
        port = await served(lambda: FOUND, nursery)
        head, body = await ask(port, b"GET /metrics HTTP/1.1\r\n")
        assert head.startswith(b"http/1.1 200")
        assert b"content-type: text/plain; version=" in head
        assert samples(body.decode())["pykbroker_connections", ()] == 7
        head, body = await ask(port, b"HEAD /metrics HTTP/1.1\r\n")
        assert (head.startswith(b"http/1.1 200"), body) == (True, b"")
        assert (await ask(port, b"GET / HTTP/1.1\r\n"))[0].startswith(b"http/1.1 404")
        assert (await ask(port, b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n"))[0].startswith(b"http/1.1 405")
        assert (await ask(port, b"no http at all\r\n"))[0].startswith(b"http/1.1 400")
        assert (await ask(port, b"GET /metrics HTTP/1.1\r\n"))[0].startswith(b"http/1.1 200")
        nursery.cancel_scope.cancel()


async def test_each_scrape_reads_new_statistics_and_a_failure_ends_only_that_scrape() -> None:
    asked: list[int] = []

    def statistics() -> BrokerStatistics:
        asked.append(1)
        if len(asked) == 2:
            raise KeyError("planted")
        return FOUND

    async with trio.open_nursery() as nursery:
        port = await served(statistics, nursery)
        statuses = [(await ask(port, b"GET /metrics HTTP/1.1\r\n"))[0].split()[1] for _ in range(3)]
        nursery.cancel_scope.cancel()
    assert statuses == [b"200", b"500", b"200"]
