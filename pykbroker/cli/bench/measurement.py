"""A measurement of records per second, bytes per second and latencies, with a live line."""

from __future__ import annotations

from collections import Counter
from math import exp, log

from pykbroker.cli.tables import Table

LATENCY_STEP = 0.01
"""The width of a class of latencies, as a share of the latency."""
LATENCY_S_MIN = 1e-6
FIELDS = ("records", "seconds", "records_per_second", "mb_per_second", "latency_p50_ms", "latency_p99_ms")


class Latencies:
    """Latencies in classes of 1 %, so that any number of them takes a few thousand counters."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float, records: int) -> None:
        """Count a latency of this number of records."""
        self._counts[round(log(max(seconds, LATENCY_S_MIN)) / LATENCY_STEP)] += records

    def percentile(self, percent: float) -> float | None:
        """Return the latency in seconds that this share of the records had at most, or None without records."""
        left = self._counts.total() * percent / 100
        for step, records in sorted(self._counts.items()):
            left -= records
            if left <= 0:
                return exp(step * LATENCY_STEP)
        return None


class Measurement:
    """Records, their bytes and their latencies since `began`. All times are in seconds of one clock."""

    def __init__(self, began: float) -> None:
        self.began, self.latencies = began, Latencies()
        self.records = self.size = 0
        self._last = (began, 0, 0)

    def add(self, records: int, size: int) -> None:
        """Count records and the bytes of their keys and values."""
        self.records += records
        self.size += size

    def line(self, now: float) -> str:
        """Return the rates since the last call, and all records."""
        (last, records, size), self._last = self._last, (now, self.records, self.size)
        elapsed = max(now - last, LATENCY_S_MIN)
        rate, mb = (self.records - records) / elapsed, (self.size - size) / elapsed / 1e6
        return f"{now - self.began:.0f} s: {rate:,.0f} records/s, {mb:,.1f} MB/s, {self.records:,} records"

    def summary(self, now: float) -> Table:
        """Return the fields of the whole measurement. Latencies are None if no record has one."""
        elapsed = max(now - self.began, LATENCY_S_MIN)
        rates = (round(self.records / elapsed), round(self.size / elapsed / 1e6, 1))
        return Table(FIELDS, [(self.records, round(elapsed, 3), *rates, *map(self._latency_ms, (50, 99)))])

    def _latency_ms(self, percent: float) -> float | None:
        found = self.latencies.percentile(percent)
        return None if found is None else round(1000 * found, 3)
