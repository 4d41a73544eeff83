"""A broker in the simulation: good under faults, and the same run from the same seed, step by step."""

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
from wire.messages.create_topics import CreateTopicsRequest

pytestmark = pytest.mark.timeout(240)  # it needs seconds of a processor alone, of which a busy machine gives little

ROOT = Path(__file__).parents[3]
UNLIKE = (
    {"hash_seed": "1", "junk": 10_007, "threshold": 1},
    {"hash_seed": "42", "junk": 7, "threshold": 100_000},
    {"hash_seed": "random", "junk": 3_001},
)


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.simulate", *words], cwd=ROOT, capture_output=True, text=True, timeout=200
    )


async def under_all_faults(simulation: Simulation) -> dict[str, Any]:
    return asdict(await run_scenario(simulation, Plan(seconds=8)))


@pytest.mark.parametrize("seed", [1, 2])
def test_one_seed_is_one_run_in_unlike_processes(apart, seed):
    runs = [apart(under_all_faults, seed=seed, **unlike) for unlike in UNLIKE]
    assert runs == [runs[0]] * len(UNLIKE)
    assert runs[0][0]["acknowledged"] > 100
    assert runs[0][0]["faults"]


async def in_groups_and_transactions(simulation: Simulation) -> dict[str, Any]:
    return asdict(await run_scenario(simulation, Plan(seconds=3, workloads=("groups", "transactions"))))


def test_groups_and_transactions_are_one_run_in_unlike_processes(apart):
    first, second = (apart(in_groups_and_transactions, seed=3, **unlike) for unlike in UNLIKE[1:])
    assert first == second
    assert first[0]["findings"] == []
    assert first[0]["acknowledged"] > 100


async def with_an_order_from_hashes(simulation: Simulation) -> None:
    ask = Controller.ask

    def shuffled(controller, request):
        if isinstance(request, CreateTopicsRequest):
            request.topics.sort(key=lambda topic: hash(topic.name))
        return ask(controller, request)

    Controller.ask = shuffled
    await run_scenario(simulation, Plan(seconds=1, kinds=()))


def test_a_broker_that_depends_on_hashes_is_found(apart):
    assert len({apart(with_an_order_from_hashes, hash_seed=str(seed))[1] for seed in range(4)}) > 1


def test_nothing_is_found_where_processes_die():
    outcome = simulate("run", "--seed", "1", "--runs", "3", "--seconds", "15", "--no-fsync", "--json")
    reports = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [report["findings"] for report in reports] == [[], [], []], outcome.stdout
    assert outcome.returncode == 0
    assert all(report["acknowledged"] > 500 and report["read"] > 500 for report in reports)


def test_nothing_wrong_is_served_where_bits_rot():
    outcome = simulate("run", "--seed", "1", "--runs", "6", "--seconds", "15", "--faults", "rot", "--json")
    reports = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [report["findings"] for report in reports] == [[]] * 6, outcome.stdout
    assert sum(report["faults"]["rot"] for report in reports) > 20


@pytest.mark.parametrize("workload", ["groups", "transactions"])
@pytest.mark.parametrize("durability", ["--fsync", "--no-fsync"])
def test_nothing_is_found_where_clients_share_work(workload, durability):
    outcome = simulate(
        "run", "--seed", "1", "--runs", "2", "--seconds", "10", durability, "--workload", workload, "--json"
    )
    reports = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [report["findings"] for report in reports] == [[], []], outcome.stdout
    assert all(report["acknowledged"] > 50 and report["read"] > 50 for report in reports)


def test_the_command_says_what_it_did():
    outcome = simulate("run", "--seed", "5", "--seconds", "2", "--faults", "kill,mute", "--no-fsync")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "seed 5: no findings" in outcome.stdout
    assert simulate("run", "--faults", "kil").returncode == 2


def test_large_answers_arrive_whole():
    outcome = simulate("run", "--producers", "2", "--consumers", "1", "--seconds", "60", "--faults", "none", "--json")
    report = json.loads(outcome.stdout)
    assert report["findings"] == []
    assert report["read"] > 10_000


def test_nothing_is_found_where_logs_are_compacted():
    outcome = simulate(
        "run", "--seed", "4", "--runs", "2", "--seconds", "12", "--no-fsync", "--compacted", "--json", "--log"
    )
    reports = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith("{")]
    assert [report["findings"] for report in reports] == [[], []], outcome.stdout
    assert (outcome.stdout + outcome.stderr).count("compacted up to offset") > 10
