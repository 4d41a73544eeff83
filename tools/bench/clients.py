"""Times, processes and the table that the measurements of producers and of consumers share."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.broker_process import BrokerProcess

Measured = dict[str, float]
THIS_PYTHON = (sys.executable,)


@contextmanager
def timed(count: int) -> Iterator[Measured]:
    """Yield a dict that gets the figures of the block, which handles `count` records.

    They are the rate in 1,000 records per second, and the CPU seconds of this process for a million records.
    """
    found: Measured = {}
    begun, cpu = time.perf_counter(), time.process_time()
    yield found
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    found.update(rate=count / seconds / 1000, cpu=used / count * 1e6)


@contextmanager
def latency(latencies: list[float]) -> Iterator[None]:
    """Append the seconds that the block takes."""
    begun = time.perf_counter()
    yield
    latencies.append(time.perf_counter() - begun)


def percentiles(latencies: list[float]) -> Measured:
    """Return the median and the 99th percentile in ms, after a tenth of warming up."""
    kept = sorted(latencies[len(latencies) // 10 :])
    return {"p50": kept[len(kept) // 2] * 1000, "p99": kept[len(kept) * 99 // 100] * 1000}


def in_a_process(module: str, name: str, server: str, topic: str, python: Sequence[str] = THIS_PYTHON) -> Measured:
    """Measure one client of a module in a process of its own, of the given Python."""
    command = [*python, "-m", module, "--one", name, "--server", server, "--topic", topic]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    found: Measured = json.loads(output.splitlines()[-1])
    return found


def table(names: list[str], server: str, runs: int, measure: Callable[[str, str], Measured]) -> None:
    """Measure all clients in turn, and print the medians."""
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            found[name].append(measure(name, server))
            print(name, found[name][-1], file=sys.stderr)
    print("| client | k msg/s | client CPU s/M | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for name, each in found.items():
        cells = [
            f"{statistics.median(one[column] for one in each):.{digits}f}" if column in each[0] else ""
            for column, digits in (("rate", 0), ("cpu", 2), ("p50", 2), ("p99", 2))
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def main(
    doc: str, clients: Mapping[str, Callable[[str, str], Measured]], measure: Callable[[str, str], Measured]
) -> None:
    """Measure one client, or all of them against a broker of our own or the one that is given."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--server")
    parser.add_argument("--only", default=";".join(clients), help="names, separated by ';'")
    parser.add_argument("--one")
    parser.add_argument("--topic")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(clients[arguments.one](arguments.server, arguments.topic)))
        return
    names = [name for name in clients if name in arguments.only.split(";")]
    if arguments.server:
        table(names, arguments.server, arguments.runs, measure)
        return
    with tempfile.TemporaryDirectory() as scratch:
        broker = BrokerProcess(Path(scratch), "--data-dir", f"{scratch}/data")
        broker.start()
        try:
            table(names, broker.address, arguments.runs, measure)
        finally:
            broker.kill()
