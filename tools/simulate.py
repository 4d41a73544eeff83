"""Simulations of a broker and its clients under faults, from a seed, and of every possible crash of a log.

    python -m tools.simulate run --seed 7 --runs 20 --seconds 30
    python -m tools.simulate run --workload transactions                      # or groups, acls, users, all
    python -m tools.simulate run --producers 2 --consumers 1 --faults none    # measure the speed of simulated time
    python -m tools.simulate run --brokers 3 --seed 7 --seconds 15            # a cluster of three brokers
    python -m tools.simulate crash-points --million
    python -m tools.simulate clients --seed 7 --runs 100                      # our producers and consumers

Exit code 0 means that there was no finding. After a finding, the command prints how to replay the run.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from dataclasses import asdict
from functools import partial
from itertools import count
from typing import IO

import click
import trio

from pykbroker.sim.clients.scenes import SCENES
from pykbroker.sim.cluster.fault_kinds import KINDS as SWARM_KINDS
from pykbroker.sim.cluster.plan import SwarmPlan
from pykbroker.sim.cluster.scenario import WORKLOADS as CLUSTER_WORKLOADS
from pykbroker.sim.cluster.scenario import run_cluster
from pykbroker.sim.log_life import CrashFound, check_ending, crashes, lived
from pykbroker.sim.nemesis import Nemesis
from pykbroker.sim.scenario import WORKLOADS, Plan, Report, run_scenario
from pykbroker.sim.simulation import simulate

COMMAND = "python -m tools.simulate"
FINDINGS_SHOWN = 10
ALL = "all"
MILLION = 1_000_000
now_s = time.perf_counter
"""The real clock, saved before a simulation replaces the clocks."""


@click.group()
def main() -> None:
    """Simulate a broker deterministically."""


@main.command()
@click.option("--seed", default=1, show_default=True, help="The seed of the first run.")
@click.option("--runs", default=1, show_default=True, help="The number of runs, each with the next seed.")
@click.option("--seconds", default=30.0, show_default=True, help="Simulated seconds of each run.")
@click.option(
    "--faults",
    default="all",
    show_default=True,
    help=f"all (except rot), none, or a list of: {', '.join((*Nemesis.KINDS, Nemesis.ROT))}."
    f" With several brokers: all, none, or a list of: {', '.join(SWARM_KINDS)}.",
)
@click.option(
    "--fsync/--no-fsync",
    default=None,
    help="Fsync before each acknowledgement. Without it, no power failure is simulated. By default one broker does, and"
    " for several brokers the seed decides.",
)
@click.option(
    "--brokers", default=1, show_default=True, help="The number of brokers. The first is the controller, too."
)
@click.option("--producers", default=Plan.producers, show_default=True)
@click.option("--consumers", default=Plan.consumers, show_default=True)
@click.option("--compacted", is_flag=True, help="Compact logs continuously.")
@click.option(
    "--workload",
    type=click.Choice([*CLUSTER_WORKLOADS, ALL]),
    default="log",
    show_default=True,
    help="The requests that clients send.",
)
@click.option("--log", is_flag=True, help="Show the broker's log.")
@click.option("--trace", type=click.File("w"), help="Write every traced line to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each run.")
def run(
    seed: int,
    runs: int,
    seconds: float,
    faults: str,
    fsync: bool | None,
    brokers: int,
    producers: int,
    consumers: int,
    compacted: bool,
    workload: str,
    log: bool,
    trace: IO[str] | None,
    as_json: bool,
) -> None:
    """Run a broker and its clients."""
    show_log(enabled=log)
    workloads, bad = tuple(WORKLOADS) if workload == ALL else (workload,), 0
    found = kinds(faults, brokers)
    plan: Plan | SwarmPlan
    if brokers > 1 or not {*workloads} <= {*WORKLOADS}:
        plan = SwarmPlan(brokers, seconds, found, fsync, producers, consumers, workloads)
    else:
        plan = Plan(seconds, found, fsync is not False, producers, consumers, compacted, workloads)
    durability = "" if fsync is None else " --fsync" if fsync else " --no-fsync"
    for each in range(seed, seed + runs):
        replay = (
            f"{COMMAND} run --seed {each} --seconds {seconds:g} --faults {faults} --producers {producers}"
            f" --consumers {consumers}{durability}{f' --brokers {brokers}' if brokers > 1 else ''}"
            f"{' --compacted' if compacted else ''} --workload {workload}"
        )
        bad += not one_run(each, plan, replay, trace, as_json=as_json)
    if bad and not as_json:
        print(f"{bad} of {runs} runs had findings")
    sys.exit(bool(bad))


def kinds(faults: str, brokers: int) -> tuple[str, ...]:
    """Return the kinds of faults that the option names."""
    of_all = Nemesis.KINDS if brokers == 1 else SWARM_KINDS
    named = {"all": of_all, "none": ()}.get(faults, tuple(faults.split(",")))
    if unknown := set(named) - {*of_all, *((Nemesis.ROT,) if brokers == 1 else ())}:
        raise click.BadParameter(f"no such fault: {', '.join(sorted(unknown))}", param_hint="--faults")
    return named


def one_run(seed: int, plan: Plan | SwarmPlan, replay: str, trace: IO[str] | None, *, as_json: bool) -> bool:
    """Simulate once and print the result; return whether there are no findings."""
    kept: list[str] | None = None if trace is None else []
    began_s = now_s()
    try:
        scene = partial(run_cluster, plan=plan) if isinstance(plan, SwarmPlan) else partial(run_scenario, plan=plan)
        report, digest = simulate(seed, scene, kept=kept)
    except Exception:  # noqa: BLE001 - whatever ends a simulation is a finding
        report, digest = Report(findings=[traceback.format_exc()]), ""
    wall_s = now_s() - began_s
    if trace is not None and kept is not None:
        trace.writelines(f"{line}\n" for line in kept)
    if as_json:
        print(json.dumps({"seed": seed, "digest": digest, "wall_s": wall_s, **asdict(report)}), flush=True)
    else:
        print(description(seed, report, digest, wall_s), flush=True)
        if report.findings:
            print(f"replay: {replay}", flush=True)
    return not report.findings


def description(seed: int, report: Report, digest: str, wall_s: float) -> str:
    """Return a description of the run in words."""
    faults = ", ".join(f"{kind} {times}" for kind, times in sorted(report.faults.items()))
    lines = [
        f"seed {seed}: {'FAILED' if report.findings else 'no findings'}, {report.simulated_s:.1f} s in {wall_s:.1f} s"
        f" ({report.simulated_s / wall_s:.0f} times as fast as real time),"
        f" {report.acknowledged} values acknowledged, {report.read} read, digest {digest}",
        f"  {faults or 'no faults'}",
        *(f"  broker ended: {each}" for each in dict.fromkeys(report.exits)),
        *(f"  logged: {each}" for each in list(dict.fromkeys(report.errors))[:FINDINGS_SHOWN]),
        *(f"  FOUND {each}" for each in report.findings[:FINDINGS_SHOWN]),
    ]
    if len(report.findings) > FINDINGS_SHOWN:
        lines.append(f"  and {len(report.findings) - FINDINGS_SHOWN} more")
    return "\n".join(lines)


@main.command()
@click.option("--seed", default=1, show_default=True, help="The seed of the first run.")
@click.option("--runs", default=1, show_default=True, help="The number of runs of each kind, each with the next seed.")
@click.option("--only", type=click.Choice(list(SCENES)), help="Run only this kind.")
@click.option("--log", is_flag=True, help="Show the log of the clients.")
def clients(seed: int, runs: int, only: str | None, log: bool) -> None:
    """Run producers and consumers on a scripted cluster of three nodes."""
    show_log(enabled=log)
    bad = 0
    for name in SCENES if only is None else [only]:
        for each in range(seed, seed + runs):
            try:
                findings, _ = simulate(each, SCENES[name])
            except Exception:  # noqa: BLE001 - whatever ends a simulation is a finding
                findings = [traceback.format_exc()]
            bad += bool(findings)
            for finding in findings:
                print(f"{name}, seed {each}: FOUND {finding}", flush=True)
        print(f"{name}: {runs} runs", flush=True)
    sys.exit(bool(bad))


@main.command()
@click.option("--seed", default=1, show_default=True, help="The seed of the first workload.")
@click.option(
    "--count", "crashes_min", default=20_000, show_default=True, help="The minimum number of crashes to recover from."
)
@click.option("--million", is_flag=True, help="The same as --count 1000000.")
@click.option("--steps", default=200, show_default=True, help="The number of steps of each workload.")
@click.option("--endings", default=100, show_default=True, help="The number of crashes simulated at each point.")
@click.option("--point", type=int, help="With --ending: simulate this crash only.")
@click.option("--ending", type=int)
@click.option("--log", is_flag=True, help="Show the log of recovery.")
def crash_points(
    seed: int,
    crashes_min: int,
    million: bool,
    steps: int,
    endings: int,
    point: int | None,
    ending: int | None,
    log: bool,
) -> None:
    """Crash a log at every point of recorded workloads, and recover it."""
    show_log(enabled=log)
    if point is not None and ending is not None:
        trio.run(one_ending, seed, steps, point, ending)
        print("the log was recovered")
    else:
        sys.exit(trio.run(many_endings, seed, MILLION if million else crashes_min, steps, endings))


async def one_ending(seed: int, steps: int, point: int, number: int) -> None:
    """Reproduce one crash."""
    life = await lived(seed, steps)
    await check_ending(seed, life.recording.ending(point, number, seed))


async def many_endings(seed: int, crashes_min: int, steps: int, per_point: int) -> int:
    """Run workloads until enough crashes were simulated; return the exit code."""
    checked, began_s = 0, now_s()
    for each in count(seed):
        try:
            async for _ in crashes(each, steps, per_point):
                checked += 1
        except CrashFound as found:
            print(f"FOUND after {checked} crashes: {found}")
            print(
                f"replay: {COMMAND} crash-points --seed {found.seed} --steps {steps} --point {found.point}"
                f" --ending {found.number} --log"
            )
            return 1
        print(f"seed {each}: {checked} crashes recovered, {checked / (now_s() - began_s):.0f} a second", flush=True)
        if checked >= crashes_min:
            return 0
    return 0


def show_log(*, enabled: bool) -> None:
    """Write the broker's log to stderr, or discard it."""
    if enabled:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    else:
        logging.getLogger("pykbroker").addHandler(logging.NullHandler())
        logging.getLogger("pykbroker").propagate = False


if __name__ == "__main__":
    main()
