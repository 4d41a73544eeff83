"""The only use of trio's internals: a seed decides the order of tasks, and tasks of paused processes do not run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio
import trio._core._run as inside

from pykbroker.sim.process import CURRENT, Process

PRIVATE = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r", "GLOBAL_RUN_CONTEXT")
"""The private names of trio that are used.

If the first is true, trio sorts each batch of runnable tasks by age and shuffles it by the random generator `_r`.
"""
assert all(hasattr(inside, name) for name in PRIVATE), f"trio {trio.__version__} has not all of {PRIVATE}"


@contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Let `seed` decide the order of tasks of the trio runs in this block."""
    flag, state = inside._ALLOW_DETERMINISTIC_SCHEDULING, inside._r.getstate()
    inside._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    inside._r.seed(seed)
    try:
        yield
    finally:
        inside._ALLOW_DETERMINISTIC_SCHEDULING = flag  # type: ignore[misc]
        inside._r.setstate(state)


class RunQueue(deque[trio.lowlevel.Task]):
    """A replacement of trio's queue of runnable tasks, which does not take tasks of paused processes."""

    def append(self, task: trio.lowlevel.Task) -> None:
        """Append a task. trio adds tasks only by this method."""
        process = task.context.get(CURRENT)
        if process is not None and process.paused:
            process.held.append(task)
        else:
            super().append(task)


def hold_paused_tasks() -> None:
    """Prevent tasks of paused processes from running in this trio run."""
    runner = inside.GLOBAL_RUN_CONTEXT.runner
    assert type(runner.runq) is deque, "trio's run queue is no deque any more"
    runner.runq = RunQueue(runner.runq)


def resume(process: Process) -> None:
    """Continue a paused process. Its tasks see all events that happened during the pause."""
    process.paused = False
    held, process.held = process.held, []
    inside.GLOBAL_RUN_CONTEXT.runner.runq.extend(held)
