"""The memory of our producer while its buffer stays full, and the time to import it.

    .venv/bin/python -m tools.bench.footprint [--seconds 60]

No broker answers: the records that 32 MiB hold are appended to batches of a topic, and wait there.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import trio

from pykbroker.producer import Producer
from pykbroker.world.system import system_client_world

VALUE_BYTES, IMPORTS = 100, 9
FILLED_SHARE = 0.99


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024 / 1e6


async def fill(seconds: float) -> None:
    """Fill the buffer, keep all deliveries, and print the largest memory within the time."""
    before = resident_mb()
    async with Producer(world=system_client_world(), bootstrap_servers="127.0.0.1:1", max_block_ms=0) as producer:
        producer._shell.intake.update("topic", 1, [0])
        deliveries = []
        while producer.statistics().buffer_available_bytes > (1 - FILLED_SHARE) * producer.statistics().buffer_bytes:
            deliveries.append(producer.send_nowait("topic", bytes(VALUE_BYTES), partition=0))
        largest, end = 0.0, trio.current_time() + seconds
        while trio.current_time() < end:
            largest = max(largest, resident_mb())
            await trio.sleep(1)
        await producer.aclose(0)
    print(f"{len(deliveries)} records in a full buffer for {seconds:g} s: {largest:.0f} MB, of {before:.0f} MB before")


def import_ms() -> float:
    """Return the median time in ms of an import in a fresh process, less that of Python itself."""

    def started(code: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return (time.perf_counter() - begun) * 1000

    pairs = [(started("import pykbroker.producer"), started("pass")) for _ in range(IMPORTS)]
    return statistics.median(ours - bare for ours, bare in pairs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    trio.run(fill, parser.parse_args().seconds)
    print(f"import pykbroker.producer: {import_ms():.0f} ms")
