"""Tests of the rates and latencies of `pykbroker bench`."""

from __future__ import annotations

import pytest

from pykbroker.cli.bench.measurement import Latencies, Measurement


def test_percentiles_are_exact_to_one_percent() -> None:
    latencies = Latencies()
    for ms in range(1, 1001):
        latencies.add(ms / 1000, 1)
    assert latencies.percentile(50) == pytest.approx(0.5, rel=0.01)
    assert latencies.percentile(99) == pytest.approx(0.99, rel=0.01)
    assert latencies.percentile(100) == pytest.approx(1, rel=0.01)


def test_a_latency_counts_once_for_each_record() -> None:
    latencies = Latencies()
    latencies.add(1, 98)
    latencies.add(5, 2)
    assert latencies.percentile(98) == pytest.approx(1, rel=0.01)
    assert latencies.percentile(99) == pytest.approx(5, rel=0.01)


def test_a_latency_of_zero_is_counted() -> None:
    latencies = Latencies()
    latencies.add(0, 1)
    assert latencies.percentile(50) == pytest.approx(1e-6, rel=0.01)


def test_a_line_has_the_rates_since_the_line_before() -> None:
    measurement = Measurement(10)
    measurement.add(3000, 6_000_000)
    assert measurement.line(12) == "2 s: 1,500 records/s, 3.0 MB/s, 3,000 records"
    measurement.add(500, 100_000)
    assert measurement.line(13) == "3 s: 500 records/s, 0.1 MB/s, 3,500 records"


def test_the_summary_has_the_rates_of_all_time() -> None:
    measurement = Measurement(10)
    measurement.add(3000, 6_000_000)
    measurement.latencies.add(0.002, 3000)
    (row,) = measurement.summary(14).records()
    assert row.pop("latency_p50_ms") == row.pop("latency_p99_ms") == pytest.approx(2, rel=0.01)
    assert row == {"records": 3000, "seconds": 4, "records_per_second": 750, "mb_per_second": 1.5}


def test_a_measurement_without_records_has_no_latency() -> None:
    (row,) = Measurement(0).summary(0).records()
    assert (row["records"], row["latency_p50_ms"], row["latency_p99_ms"]) == (0, None, None)
