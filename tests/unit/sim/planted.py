"""Runs of the simulation for brokers with a planted bug."""

from __future__ import annotations

from typing import Any

from pykbroker.machines.shell import MachineShell
from pykbroker.sim import fault_pace
from pykbroker.sim.cluster.plan import SwarmPlan
from pykbroker.sim.cluster.scenario import run_cluster
from pykbroker.sim.scenario import Plan, run_scenario
from pykbroker.sim.simulation import Simulation
from wire.messages.offset_fetch import OffsetFetchResponseGroup

SEEDS_MAX = 60
SECONDS, SECONDS_WITHOUT_FAULTS, CLUSTER_SECONDS = 10, 6, 15
IMPATIENT = (
    ("broker.session.timeout.ms", "1000"),
    ("broker.heartbeat.interval.ms", "200"),
    ("replica.lag.time.max.ms", "1000"),
)
"""Configs with which most faults outlast sessions, so that leaders change often."""


async def found(
    simulation: Simulation, workload: str, *kinds: str, compacted: bool = False, seconds: int = SECONDS
) -> list[str]:
    """Return the findings of a run with the given kinds of faults, or of a shorter run without faults."""
    seconds = seconds if kinds else SECONDS_WITHOUT_FAULTS
    return (await run_scenario(simulation, Plan(seconds, kinds, compacted=compacted, workloads=(workload,)))).findings


async def found_in_cluster(
    simulation: Simulation,
    *kinds: str,
    workload: str = "log",
    seconds: float = CLUSTER_SECONDS,
    fsync: bool = False,
    pace_s: float | None = None,
    distant: bool | None = None,
) -> list[str]:
    """Return the findings of a run of three brokers with a random subset of the given kinds of faults.

    `pace_s` is the average time between two faults. The seed chooses it, and whether brokers are `distant`, if None.
    """
    if pace_s is not None:
        vars(fault_pace)["PACES_S"] = (pace_s,)
    plan = SwarmPlan(
        seconds=seconds, kinds=kinds, fsync=fsync, workloads=(workload,), distant=distant, configs=IMPATIENT
    )
    return (await run_cluster(simulation, plan)).findings


async def found_after_silence(simulation: Simulation) -> list[str]:
    """Return the findings of a run of three brokers, one of which is cut off for a long time."""
    vars(fault_pace)["PACES_S"] = (0.1,)
    return (await run_cluster(simulation, SwarmPlan(seconds=2, kinds=("silence",), fsync=False))).findings


def answer_offset_fetches_at_once() -> None:
    """Plant a bug: coordinators answer OffsetFetch before the offsets that they return are committed."""
    reply = MachineShell._reply

    def hasty(shell: Any, call: Any, response: Any, *limit: Any) -> None:
        if isinstance(response, OffsetFetchResponseGroup):
            shell._settle(call, response)
        else:
            reply(shell, call, response, *limit)

    MachineShell._reply = hasty
