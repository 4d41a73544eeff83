"""The one place that knows trio's inside: tasks in an order drawn from a seed, and tasks that are kept from running."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio
import trio._core._run as inside

from pykbroker.sim.process import CURRENT, Process

PRIVATE = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r", "GLOBAL_RUN_CONTEXT")
"""trio sorts each batch of runnable tasks by age and shuffles it by `_r`, if the flag is set; we set flag and seed."""
assert all(hasattr(inside, name) for name in PRIVATE), f"trio {trio.__version__} has not all of {PRIVATE}"


@contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Draw the order of tasks of trio runs in this block from `seed`."""
    flag, state = inside._ALLOW_DETERMINISTIC_SCHEDULING, inside._r.getstate()
    inside._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    inside._r.seed(seed)
    try:
        yield
    finally:
        inside._ALLOW_DETERMINISTIC_SCHEDULING = flag  # type: ignore[misc]
        inside._r.setstate(state)


class RunQueue(deque[trio.lowlevel.Task]):
    """trio's queue of runnable tasks, which those of a paused process do not enter."""

    def append(self, task: trio.lowlevel.Task) -> None:
        """Append a task; trio adds tasks by no other method."""
        process = task.context.get(CURRENT)
        if process is not None and process.paused:
            process.held.append(task)
        else:
            super().append(task)


def hold_paused_tasks() -> None:
    """Keep the tasks of paused processes from running, in this trio run."""
    runner = inside.GLOBAL_RUN_CONTEXT.runner
    assert type(runner.runq) is deque, "trio's run queue is no deque any more"
    runner.runq = RunQueue(runner.runq)


def resume(process: Process) -> None:
    """Continue a paused process, with all that has happened to it meanwhile."""
    process.paused = False
    held, process.held = process.held, []
    inside.GLOBAL_RUN_CONTEXT.runner.runq.extend(held)
