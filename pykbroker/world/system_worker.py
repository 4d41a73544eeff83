"""A worker in a child process. Messages pass through pipes, each preceded by its size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ, pathsep

import trio

from pykbroker.world.worker import ByteMachine, WorkerGone
from pykbroker.world.worker_process import SIZE_BYTES

PROGRAM = "pykbroker.world.worker_process"


class SystemWorker:
    """A worker in one child process."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process

    async def ask(self, message: bytes) -> bytes:
        """Send a message and return the reply. After a cancelled call, the worker must not be used again."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(len(message).to_bytes(SIZE_BYTES, "big") + message)
            size = int.from_bytes(await self._receive(SIZE_BYTES), "big")
            return bytes(await self._receive(size))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            raise WorkerGone(f"process {self._process.pid} has ended") from broken

    async def _receive(self, size: int) -> bytearray:
        assert self._process.stdout is not None
        data = bytearray()
        while len(data) < size:
            piece = await self._process.stdout.receive_some(size - len(data))
            if not piece:
                raise trio.BrokenResourceError("the worker closed its pipe")
            data += piece
        return data


class SystemWorkers:
    """The starter of worker processes, which have a lower priority than the broker's process."""

    @asynccontextmanager
    async def start(self, machine: type[ByteMachine]) -> AsyncIterator[SystemWorker]:
        """Start a worker process, which ends when the broker's process ends.

        Raise WorkerGone if it cannot be started.
        """
        # `-P` keeps the working directory out of the worker's path. PYTHONPATH below gives it the path of the broker.
        command = [sys.executable, "-P", "-m", PROGRAM, machine.__module__, machine.__qualname__]
        try:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**environ, "PYTHONPATH": pathsep.join(filter(None, sys.path))},
            )
        except (OSError, ValueError) as refusal:
            raise WorkerGone(f"{sys.executable or 'this Python'} cannot start a process: {refusal}") from refusal
        try:
            yield SystemWorker(process)
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        await pipe.aclose()
