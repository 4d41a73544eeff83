"""Tests of a simulated broker: no findings under faults, and exactly the same run for the same seed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pykbroker.quorum.controller import Controller
from pykbroker.sim.scenario import Plan, run_scenario
from pykbroker.sim.simulation import Simulation
from tests.unit.sim.conftest import UNLIKE
from wire.messages.create_topics import CreateTopicsRequest

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

ROOT = Path(__file__).parents[3]


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.simulate", *words], cwd=ROOT, capture_output=True, text=True, timeout=200
    )


async def under_all_faults(simulation: Simulation) -> dict[str, Any]:
    return asdict(await run_scenario(simulation, Plan(seconds=8)))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_gives_the_same_run_in_processes_that_differ(apart, seed):
    runs = [apart(under_all_faults, seed=seed, **unlike) for unlike in UNLIKE[1:]]
    assert runs == [runs[0]] * len(runs)
    assert runs[0][0]["acknowledged"] > 100
    assert runs[0][0]["faults"]


async def in_groups_and_transactions(simulation: Simulation) -> dict[str, Any]:
    return asdict(await run_scenario(simulation, Plan(seconds=3, workloads=("groups", "transactions"))))


def test_a_seed_gives_the_same_run_of_groups_and_transactions_in_processes_that_differ(apart):
    first, second = (apart(in_groups_and_transactions, seed=3, **unlike) for unlike in UNLIKE[1:])
    assert first == second
    assert first[0]["findings"] == []
    assert first[0]["acknowledged"] > 100


async def with_topics_sorted_by_hash(simulation: Simulation) -> None:
    ask = Controller.ask

    def shuffled(controller, request):
        if isinstance(request, CreateTopicsRequest):
            request.topics.sort(key=lambda topic: hash(topic.name))
        return ask(controller, request)

    Controller.ask = shuffled
    await run_scenario(simulation, Plan(seconds=1, kinds=()))


def test_a_broker_that_depends_on_hash_order_is_detected(apart):
    assert len({apart(with_topics_sorted_by_hash, hash_seed=str(seed))[1] for seed in range(4)}) > 1


def test_killed_brokers_cause_no_findings():
    outcome = simulate("run", "--seed", "1", "--runs", "3", "--seconds", "15", "--no-fsync", "--json")
    reports = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [report["findings"] for report in reports] == [[], [], []], outcome.stdout
    assert outcome.returncode == 0
    assert all(report["acknowledged"] > 500 and report["read"] > 500 for report in reports)


def test_flipped_bits_on_disk_are_never_served():
    outcome = simulate("run", "--seed", "1", "--runs", "6", "--seconds", "15", "--faults", "rot", "--json")
    reports = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [report["findings"] for report in reports] == [[]] * 6, outcome.stdout
    assert sum(report["faults"]["rot"] for report in reports) > 20


@pytest.mark.parametrize("workload", ["groups", "transactions"])
@pytest.mark.parametrize("durability", ["--fsync", "--no-fsync"])
def test_groups_and_transactions_under_faults_cause_no_findings(workload, durability):
    outcome = simulate(
        "run", "--seed", "1", "--runs", "2", "--seconds", "10", durability, "--workload", workload, "--json"
    )
    reports = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [report["findings"] for report in reports] == [[], []], outcome.stdout
    assert all(report["acknowledged"] > 50 and report["read"] > 50 for report in reports)


def test_the_command_prints_its_outcome():
    outcome = simulate("run", "--seed", "5", "--seconds", "2", "--faults", "kill,mute", "--no-fsync")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "seed 5: no findings" in outcome.stdout
    assert simulate("run", "--faults", "kil").returncode == 2


def test_large_responses_arrive_whole():
    outcome = simulate("run", "--producers", "2", "--consumers", "1", "--seconds", "60", "--faults", "none", "--json")
    report = json.loads(outcome.stdout)
    assert report["findings"] == []
    assert report["read"] > 10_000


def test_compacted_logs_cause_no_findings():
    outcome = simulate(
        "run", "--seed", "4", "--runs", "2", "--seconds", "12", "--no-fsync", "--compacted", "--json", "--log"
    )
    reports = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith("{")]
    assert [report["findings"] for report in reports] == [[], []], outcome.stdout
    assert (outcome.stdout + outcome.stderr).count("compacted up to offset") > 10
