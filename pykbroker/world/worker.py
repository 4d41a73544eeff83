"""The seam for long computation that must leave the loop its CPU core: a machine in a process of its own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class WorkerGone(Exception):
    """The error of a worker whose process ended or could not be started. Its state is lost."""


class ByteMachine(Protocol):
    """The machine that a worker runs. It is constructed without arguments, by its class name."""

    def handle(self, message: bytes) -> bytes:
        """Return the reply to one message."""


class Worker(Protocol):
    """A machine in another process. One task uses it at a time."""

    async def ask(self, message: bytes) -> bytes:
        """Return the machine's reply. WorkerGone: the process has ended."""


class Workers(Protocol):
    """The starter of workers."""

    def start(self, machine: type[ByteMachine]) -> AbstractAsyncContextManager[Worker]:
        """Start a worker that ends with the context. WorkerGone: it cannot be started."""
