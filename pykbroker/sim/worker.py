"""Simulated workers. Their state machines run in this process, and replies take virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykbroker.world.off_loop import OffLoop
from pykbroker.world.worker import ByteMachine


class InlineWorker:
    """A worker whose state machine runs in this process."""

    def __init__(self, machine: ByteMachine, off_loop: OffLoop) -> None:
        self._machine, self._off_loop = machine, off_loop

    async def ask(self, message: bytes) -> bytes:
        """Return the reply to a message, as `Worker.ask` does."""
        return await self._off_loop(self._machine.handle, message)


class InlineWorkers:
    """The starter of workers in this process. A reply takes as long as a call of `off_loop`."""

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop = off_loop

    @asynccontextmanager
    async def start(self, machine: type[ByteMachine]) -> AsyncIterator[InlineWorker]:
        """Start a worker as `Workers.start` does."""
        yield InlineWorker(machine(), self._off_loop)
