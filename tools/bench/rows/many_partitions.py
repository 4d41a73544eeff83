"""Steps of the event loop with 10,000 followed partitions, and the cost of a record to one of 2,000 of them.

CPU time is counted. For the steps each of three brokers has a process, and for the cost all run in one.
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
DESCRIPTORS_LEFT = 2000
"""The descriptors of a broker for all but the files of its partitions."""
FOLLOWED, FEW = 2000, 10
RUN_S_MAX = 1800
PHASES = ("create", "idle", "fence", "return")


def measure(stage: Stage) -> Mapping[str, float] | None:
    """Return the longest step in ms of each phase: creation, parked fetches, a fenced broker, and its return."""
    if not stage.peer.in_process:
        return None
    found = run("partition_steps", min(PARTITIONS, open_files_max() - DESCRIPTORS_LEFT))
    return {phase: max(one["step"] for name, one in found[phase].items() if name != "seconds") for phase in PHASES}


def cost(stage: Stage) -> Mapping[str, float] | None:
    """Return the CPU time of a record to one of many followed partitions, and its ratio to that of a few."""
    if not stage.peer.in_process:
        return None
    many, few = (run("many_partitions", count)["record_us"] for count in (FOLLOWED, FEW))
    return {"many": many, "ratio": many / few}


def run(program: str, partitions: int) -> dict[str, Any]:
    """Return what a program measures with this number of partitions."""
    command = [sys.executable, "-m", f"tools.bench.{program}", "--partitions", str(partitions)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=RUN_S_MAX)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


STEPS = {phase: Figure(f"{phase} ms", digits=1) for phase in PHASES}
COST = {"many": Figure(f"us of CPU, {FOLLOWED:,} partitions", digits=0), "ratio": Figure(f"x of {FEW} partitions")}
ROWS = (
    Row("steps with 10,000 followed partitions", STEPS, measure, noisy=False),
    Row("record to one of many followed partitions", COST, cost),
)
