"""Tests of the simulated scheduler: reproducible runs, virtual time, and processes that are killed without cleanup."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import uuid

import pytest
import trio

from pykbroker.sim.process import Killed, Process
from pykbroker.sim.scheduler import resume
from pykbroker.sim.simulation import Simulation
from tests.unit.sim.conftest import UNLIKE


async def tasks_race(simulation: Simulation) -> list[int]:
    dice, order = simulation.dice("race"), []

    async def runner(number: int) -> None:
        for _ in range(20):
            await trio.sleep(dice.choice((0, 0.001, 0.5)))
            order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(runner, number)
    return order


def test_a_seed_gives_the_same_order_in_processes_that_differ_and_another_seed_another_order(apart):
    runs = [apart(tasks_race, **unlike) for unlike in UNLIKE]
    assert runs == [runs[0]] * len(UNLIKE)
    assert apart(tasks_race, seed=2)[0] != runs[0][0]


async def hash_order_decides(simulation: Simulation) -> None:
    for name in {"replica", "leader", "controller", "follower"}:
        simulation.trace(name)


def test_a_run_that_depends_on_hash_order_is_detected(apart):
    assert len({apart(hash_order_decides, **unlike)[1] for unlike in UNLIKE}) > 1


async def a_day_passes(simulation: Simulation) -> float:
    await trio.sleep(86_400)
    return trio.current_time()


def test_a_virtual_day_passes_at_once(apart):
    assert apart(a_day_passes)[0] == 86_400


async def events_at_times_and_at_rest(simulation: Simulation) -> list[str]:
    effects: list[str] = []
    simulation.clock.call_later(2, effects.append, "two")
    simulation.clock.call_later(1, effects.append, "one")

    async def busy() -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            effects.append("busy")

    simulation.nursery.start_soon(busy)
    await simulation.at_rest()
    effects.append("rest")
    await trio.sleep(5)
    return effects


def test_events_take_place_when_no_task_can_run(apart):
    assert apart(events_at_times_and_at_rest)[0] == ["busy"] * 3 + ["rest", "one", "two"]


async def a_process_is_killed(simulation: Simulation) -> list[str]:
    effects: list[str] = []

    async def main(process: Process) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 0.5)
                await trio.sleep(1)
                effects.append("lived")
                await trio.sleep(1)
                process.step()
        finally:
            effects.append("finally")

    alive, dead = Process("alive"), Process("dead")
    simulation.start(dead, main, dead)
    simulation.start(alive, main, alive)
    await trio.sleep(1.5)
    dead.kill()
    await trio.sleep(100)
    return list(effects)


def test_no_code_of_a_killed_process_runs_any_more(apart):
    assert apart(a_process_is_killed)[0] == ["lived", "lived", "finally"]


async def a_process_is_paused(simulation: Simulation) -> list[float]:
    times = []

    async def main() -> None:
        for _ in range(3):
            await trio.sleep(1)
            times.append(trio.current_time())

    process = Process("slow")
    simulation.start(process, main)
    await trio.sleep(1.5)
    process.paused = True
    await trio.sleep(10)
    resume(process)
    await trio.sleep(5)
    return times


def test_a_paused_process_continues_where_it_stopped(apart):
    assert apart(a_process_is_paused)[0] == [1.0, 11.5, 12.5]


async def a_process_is_killed_before_its_third_effect(simulation: Simulation) -> list[int]:
    process = Process("mortal")
    effects: list[int] = []

    async def main() -> None:
        for number in range(5):
            process.step()
            effects.append(number)

    process.steps_left = 2
    simulation.start(process, main)
    await trio.sleep(1)
    with pytest.raises(Killed):
        process.step()
    return effects


def test_a_process_can_be_killed_between_two_effects_of_one_step(apart):
    assert apart(a_process_is_killed_before_its_third_effect)[0] == [0, 1]


async def a_live_process_fails(simulation: Simulation) -> None:
    async def main() -> None:
        raise ValueError("this fails the simulation")

    simulation.start(Process("broken"), main)
    await trio.sleep(1)


def test_an_exception_in_a_running_process_fails_the_simulation(apart):
    with pytest.raises(AssertionError, match="this fails the simulation"):
        apart(a_live_process_fails)


async def a_deadlock(simulation: Simulation) -> None:
    await trio.sleep_forever()


def test_a_deadlock_is_detected(apart):
    with pytest.raises(AssertionError, match="Stuck"):
        apart(a_deadlock)


async def clocks_randomness_and_threads_are_used(simulation: Simulation) -> int:
    questions = (
        time.time,
        time.monotonic,
        time.perf_counter_ns,
        random.random,
        uuid.uuid4,
        random.SystemRandom().random,
        threading.Thread().start,
    )
    for question in questions:
        with pytest.raises(RuntimeError, match="in a simulation"):
            question()
    with pytest.raises(RuntimeError, match="in a simulation"):
        os.urandom(1)
    with pytest.raises(RuntimeError, match="in a simulation"):
        await trio.to_thread.run_sync(int)
    logging.getLogger("scene").warning("log records need no clock")
    return len(questions)


def test_real_clocks_randomness_and_threads_are_refused(apart):
    assert apart(clocks_randomness_and_threads_are_used)[0] == 7
