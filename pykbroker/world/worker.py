"""The seam for long computation that must leave the loop its core: a machine of bytes in a process of its own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class WorkerGone(Exception):
    """Its process ended, or could not be started. What it knew is lost."""


class ByteMachine(Protocol):
    """What a worker runs: made without arguments, by the name of its class; each message is answered by one."""

    def handle(self, message: bytes) -> bytes:
        """The answer."""


class Worker(Protocol):
    """A machine elsewhere, for one task at a time."""

    async def ask(self, message: bytes) -> bytes:
        """The machine's answer. WorkerGone."""


class Workers(Protocol):
    """Starts them."""

    def start(self, machine: type[ByteMachine]) -> AbstractAsyncContextManager[Worker]:
        """A new worker, that ends with the context. WorkerGone: there can be none."""
