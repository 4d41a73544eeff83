"""A simulated process: tasks that can be stopped as SIGSTOP does and killed as SIGKILL does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import trio

CURRENT: ContextVar[Process | None] = ContextVar("pykbroker.sim.process", default=None)
"""The process that a task belongs to. Child tasks inherit it."""


class Killed(BaseException):
    """An error for every operation of a dead process on disk or network."""


def no_cleanup() -> None:
    """Do nothing when a process dies, since it has nothing to clean up."""


class Process:
    """A simulated process. None of its tasks runs while `paused` is true, or once `dead` is true.

    `died` is called when the process dies, to clean up as the kernel would do.
    """

    __slots__ = ("_died", "dead", "gone", "held", "name", "paused", "steps_left")

    def __init__(self, name: str, died: Callable[[], None] = no_cleanup) -> None:
        self.name, self._died = name, died
        self.paused = self.dead = False
        self.gone = trio.Event()
        """An event that is set when the process dies."""
        self.held: list[trio.lowlevel.Task] = []
        self.steps_left = -1
        """The number of operations on disk and network until the process is killed, or -1 for no limit."""

    def start(self, nursery: trio.Nursery, main: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run `main` as this process. Errors that it raises after its death are ignored."""
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
        """Count one operation on disk or network. Raise Killed if the process is dead."""
        if self.dead:
            raise Killed(self.name)
        if self.steps_left >= 0:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.kill()
                raise Killed(self.name)

    def kill(self) -> None:
        """Kill the process as SIGKILL does. A second call does nothing."""
        if not self.dead:
            self.paused = self.dead = True
            self._died()
            self.gone.set()
