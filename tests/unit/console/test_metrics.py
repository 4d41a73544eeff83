"""Tests of the metrics that one scrape returns."""

from __future__ import annotations

import platform

import pytest

from pykbroker.core.version import VERSION
from pykbroker.server.ending import ConnectionEnding
from tests.unit.console.observed import Observed


async def test_each_statistic_is_exported_under_its_metric_name() -> None:
    found = await Observed().scrape()

    def of(name: str, **labels: str) -> float:
        return found[f"pykbroker_{name}", tuple(sorted(labels.items()))]

    assert of("requests_total", api="PRODUCE", version="11") == 3
    assert of("request_errors_total", api="PRODUCE", version="11") == 1
    assert of("request_bytes_total", api="PRODUCE", version="12") == 200
    assert of("response_bytes_total", api="PRODUCE", version="12") == 20
    assert of("request_local_seconds_total", api="PRODUCE", version="11") == pytest.approx(0.004)
    assert of("request_remote_seconds_total", api="PRODUCE", version="12") == pytest.approx(5)
    assert of("requests_total", api="FETCH", version="18") == 0
    assert (of("connections_accepted_total"), of("connections_refused_total")) == (9, 2)
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
        "logs",
        "log_segments",
        "log_bytes",
        "log_appended_bytes_total",
        "log_read_bytes_total",
        "log_flushes_total",
    )
    assert [of(name, directory="/d/a") for name in figures] == [3, 5, 900, 1000, 400, 2]
    assert (of("scrub_passes_total"), of("scrub_bytes_total")) == (2, 12_345)
    assert (of("scrub_damaged_total"), of("scrub_partitions_left")) == (1, 6)
    assert of("metadata_changes_waiting") == 0
    assert found["process_resident_memory_bytes", ()] > 0


async def test_one_histogram_has_the_durations_of_all_versions_of_an_api() -> None:
    found = await Observed().scrape()
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


async def test_build_info_has_the_versions_of_pykbroker_and_python_as_labels() -> None:
    found = await Observed().scrape()
    assert found["pykbroker_build_info", (("python", platform.python_version()), ("version", VERSION))] == 1
    assert found["kafka_brokers", ()] == 1
    assert found["kafka_broker_info", (("address", "b3.example:9092"), ("id", "3"))] == 1
