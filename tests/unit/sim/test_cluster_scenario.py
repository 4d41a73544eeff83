"""Tests of simulated clusters: no findings under faults, and exactly the same run for the same seed.

SWARM_SEEDS=300 in the environment runs that many seeds of 60 s instead of a few seeds of 15 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pykbroker.sim.cluster.plan import SwarmPlan
from pykbroker.sim.cluster.scenario import run_cluster
from pykbroker.sim.simulation import Simulation
from tests.unit.sim.conftest import UNLIKE
from tests.unit.sim.planted import found_after_silence

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

ROOT = Path(__file__).parents[3]
MANY = int(os.environ.get("SWARM_SEEDS", "0"))


def simulate(*words: str, timeout_s: float = 200) -> list[dict[str, Any]]:
    outcome = subprocess.run(
        [sys.executable, "-m", "tools.simulate", "run", "--brokers", "3", "--json", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert outcome.returncode in (0, 1), outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def findings(reports: list[dict[str, Any]]) -> dict[int, list[str]]:
    return {report["seed"]: report["findings"] for report in reports if report["findings"]}


async def under_all_faults(simulation: Simulation) -> dict[str, Any]:
    return asdict(await run_cluster(simulation, SwarmPlan(seconds=6)))


async def under_restarts(simulation: Simulation) -> dict[str, Any]:
    return asdict(await run_cluster(simulation, SwarmPlan(seconds=3, kinds=("restart",))))


@pytest.mark.parametrize(("scene", "seed"), [(under_all_faults, 3), (under_restarts, 104)])
def test_a_seed_gives_the_same_run_of_a_cluster_in_processes_that_differ(apart, scene, seed):
    runs = [apart(scene, seed=seed, **unlike) for unlike in UNLIKE[1:]]
    assert runs == [runs[0]] * len(runs)
    assert runs[0][0]["acknowledged"] > 100
    assert runs[0][0]["faults"]


def test_a_cluster_serves_and_fills_its_isrs_within_seconds_after_a_long_silence(apart):
    assert apart(found_after_silence, seed=1)[0] == []


def test_a_leader_that_is_cut_off_between_append_and_commit_loses_nothing():
    reports = simulate("--seed", "1", "--runs", "2", "--seconds", "12", "--faults", "cut_leader", "--no-fsync")
    assert findings(reports) == {}
    assert any(report["faults"].get("cut_leader") for report in reports)
    assert all(report["acknowledged"] > 500 for report in reports)


@pytest.mark.parametrize(
    ("first", "runs", "words"),
    [
        (1, 2, ()),
        (4, 2, ()),
        (8, 1, ("--brokers", "4")),
        (9, 2, ("--workload", "groups")),
        (11, 1, ("--workload", "transactions")),
        (12, 1, ("--workload", "acls", "--seconds", "8")),
        (13, 1, ("--workload", "users", "--seconds", "8")),
    ],
)
def test_a_swarm_of_faults_causes_no_findings(first, runs, words):
    reports = simulate("--seed", str(first), "--runs", str(runs), "--seconds", "15", *words)
    assert findings(reports) == {}
    assert all(report["acknowledged"] and report["read"] and report["faults"] for report in reports)


@pytest.mark.skipif(not MANY, reason="SWARM_SEEDS is not set")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("workload", ["log", "groups", "transactions", "acls", "users"])
def test_many_seeds_cause_no_findings(workload):
    reports = simulate("--runs", str(MANY), "--seconds", "60", "--workload", workload, timeout_s=MANY * 120)
    assert len(reports) == MANY
    assert findings(reports) == {}
