"""A simulation: a seed, a clock, a digest of everything that happened, and the simulated processes."""

from __future__ import annotations

import gc
import hashlib
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from pykbroker.sim.clock import VirtualClock
from pykbroker.sim.poison import poisoned
from pykbroker.sim.process import Process
from pykbroker.sim.scheduler import hold_paused_tasks, resume, seeded

T = TypeVar("T")


class Stuck(Exception):
    """An error for a simulation in which every task waits and no event is due."""


class Simulation:
    """A simulation: the objects that all its parts share. `nursery` runs the processes until `main` returns."""

    nursery: trio.Nursery

    def __init__(self, seed: int, kept: list[str] | None = None) -> None:
        self.seed = seed
        self.clock = VirtualClock(self._stuck)
        self.stuck = self.over = False
        self._digest = hashlib.blake2b(digest_size=16)
        self._kept = kept
        self._processes: list[Process] = []

    @property
    def now(self) -> float:
        """Return the seconds since the simulation began."""
        return self.clock.now

    def dice(self, label: str) -> random.Random:
        """Return a random generator for one part of the simulation, so that its draws do not affect other parts."""
        return random.Random(f"{self.seed} {label}")  # a seed of text is hashed by SHA-512, not by hash()

    # ---- the digest

    def trace(self, *facts: object) -> None:
        """Add an event to the digest, which must be equal in two runs of one seed."""
        if self.over:
            return
        line = f"{self.clock.now!r} {facts}"
        self._digest.update(line.encode())
        if self._kept is not None:
            self._kept.append(line)

    @property
    def digest(self) -> str:
        """Return the digest of all traced events, in hex."""
        return self._digest.hexdigest()

    # ---- processes

    def start(self, process: Process, main: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run `main` as this process."""
        self._processes.append(process)
        process.start(self.nursery, main, *args)

    async def at_rest(self) -> None:
        """Wait until no task can run."""
        rest = trio.Event()
        self.clock.call_later(0, rest.set)
        await rest.wait()

    def end(self) -> None:
        """Stop all processes after the check of the history.

        The tasks of dead processes are unwound now, without a trace.
        """
        self.over = True
        self.nursery.cancel_scope.cancel()
        for process in self._processes:
            resume(process)

    def _stuck(self) -> None:
        if self.over:
            raise AssertionError("the simulation does not end: a task waits though it is cancelled")
        self.stuck = True
        self.end()


class TaskTrace(trio.abc.Instrument):
    """A trio instrument that traces every step of every task, which is the strictest comparison of two runs."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._numbers: dict[trio.lowlevel.Task, int] = {}
        self._last = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Number the task in the order of creation."""
        self._last += 1
        self._numbers[task] = self._last

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._simulation.trace(self._numbers.get(task, 0))

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._numbers.pop(task, None)


def simulate(seed: int, main: Callable[[Simulation], Awaitable[T]], *, kept: list[str] | None = None) -> tuple[T, str]:
    """Return the result of `main` and the digest of the run. `kept` receives every traced line.

    Raise Stuck if every task waits and no event is due. The process must have no other threads and must not import
    Hypothesis, since access to the real machine is blocked and the order of trio's tasks is seeded.
    """
    simulation = Simulation(seed, kept)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with seeded(f"{seed} tasks"), poisoned():
            result = trio.run(
                partial(_main, simulation, main), clock=simulation.clock, instruments=[TaskTrace(simulation)]
            )
    finally:
        gc.enable()
        gc.unfreeze()
    if simulation.stuck:
        raise Stuck(f"at {simulation.now:.3f} s")
    return result[0], simulation.digest


async def _main(simulation: Simulation, main: Callable[[Simulation], Awaitable[T]]) -> list[T]:
    hold_paused_tasks()
    result = []
    async with trio.open_nursery() as simulation.nursery:
        try:
            result.append(await main(simulation))
        finally:
            simulation.end()
    return result
