"""Steps of the event loop with 10,000 followed partitions, and the cost of a record to one of 2,000 of them.

Three brokers run in one process, `tools.bench.many_partitions`, which counts CPU time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pykbroker.world.system_limits import open_files_max
from tools.bench.row import Figure, Row, Stage

PARTITIONS = 10_000
BROKERS, DESCRIPTORS_LEFT = 3, 1000
"""The number of brokers, each of which has an open file for each partition, and the descriptors for all else."""
FOLLOWED, FEW = 2000, 10
RUN_S_MAX = 1800
PHASES = ("create", "idle", "fence", "return")


def measure(stage: Stage) -> Mapping[str, float] | None:
    """Return the longest step in ms of each phase: creation, parked fetches, a fenced broker, and its return."""
    if not stage.peer.in_process:
        return None
    found = run("--steps", min(PARTITIONS, (open_files_max() - DESCRIPTORS_LEFT) // BROKERS))
    return {phase: found[phase]["step"] for phase in PHASES}


def cost(stage: Stage) -> Mapping[str, float] | None:
    """Return the CPU time of a record to one of many followed partitions, and its ratio to that of a few."""
    if not stage.peer.in_process:
        return None
    many, few = (run("--cost", count)["record_us"] for count in (FOLLOWED, FEW))
    return {"many": many, "ratio": many / few}


def run(option: str, count: int) -> dict[str, Any]:
    """Return what the program measures with this number of partitions."""
    command = [sys.executable, "-m", "tools.bench.many_partitions", option, str(count)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=RUN_S_MAX)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


STEPS = {phase: Figure(f"{phase} ms", digits=1) for phase in PHASES}
COST = {"many": Figure(f"us of CPU, {FOLLOWED:,} partitions", digits=0), "ratio": Figure(f"x of {FEW} partitions")}
ROWS = (
    Row("steps with 10,000 followed partitions", STEPS, measure, noisy=False),
    Row("record to one of many followed partitions", COST, cost),
)
