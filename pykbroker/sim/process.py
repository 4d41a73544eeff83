"""A process of a simulated machine: tasks that can be stopped as SIGSTOP does and ended as SIGKILL does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import trio

CURRENT: ContextVar[Process | None] = ContextVar("pykbroker.sim.process", default=None)
"""The process that a task belongs to; the tasks it starts inherit it."""


class Killed(BaseException):
    """The error that a dead process gets for any further effect on the world."""


def unmourned() -> None:
    """Do nothing when a process dies."""


class Process:
    """A life of a program. None of its tasks runs while it is `paused`; `dead` is final.

    `died` is called when it dies, and does at once what the kernel would do.
    """

    __slots__ = ("_died", "dead", "gone", "held", "name", "paused", "steps_left")

    def __init__(self, name: str, died: Callable[[], None] = unmourned) -> None:
        self.name, self._died = name, died
        self.paused = self.dead = False
        self.gone = trio.Event()
        """Set once the process is dead."""
        self.held: list[trio.lowlevel.Task] = []
        self.steps_left = -1
        """Effects on the world until it is killed in the middle of a step; -1: it is not."""

    def start(self, nursery: trio.Nursery, main: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run `main` as this process. Errors of a dead process are dropped."""
        token = CURRENT.set(self)
        nursery.start_soon(self._live, main, args, name=self.name)
        CURRENT.reset(token)

    async def _live(self, main: Callable[..., Awaitable[object]], args: tuple[object, ...]) -> None:
        try:
            await main(*args)
        except BaseException:
            if not self.dead:
                raise

    def step(self) -> None:
        """Count one effect on the world. Killed when the process may have none."""
        if self.dead:
            raise Killed(self.name)
        if self.steps_left >= 0:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.kill()
                raise Killed(self.name)

    def kill(self) -> None:
        """Kill the process as SIGKILL does; a second call does nothing."""
        if not self.dead:
            self.paused = self.dead = True
            self._died()
            self.gone.set()
