"""The seam for long computation: a state machine in a separate process, which leaves the event loop its CPU core."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class WorkerGone(Exception):
    """An error of a worker whose process ended or could not be started. The state of the worker is lost."""


class ByteMachine(Protocol):
    """The state machine that a worker runs. The worker constructs it without arguments."""

    def handle(self, message: bytes) -> bytes:
        """Return the reply to one message."""


class Worker(Protocol):
    """A state machine in another process. One task uses it at a time."""

    async def ask(self, message: bytes) -> bytes:
        """Return the state machine's reply to a message. Raise WorkerGone if the process has ended."""


class Workers(Protocol):
    """The starter of workers."""

    def start(self, machine: type[ByteMachine]) -> AbstractAsyncContextManager[Worker]:
        """Start a worker that ends with the `async with` block. Raise WorkerGone if it cannot be started."""
