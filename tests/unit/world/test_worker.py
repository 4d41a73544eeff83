"""Tests of worker processes: replies, failures, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO

import msgspec
import pytest
import trio

from pykbroker.core.compaction.compactor import Begin, Compactor
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.worker import InlineWorkers
from pykbroker.world.system_worker import PROGRAM, SystemWorkers
from pykbroker.world.worker import WorkerGone
from pykbroker.world.worker_process import answer

BEGIN = msgspec.msgpack.encode(Begin(0, 1, 0, 0, 1, []))
ENDS_S_MAX = 15
NONE = msgspec.msgpack.encode(None)


class Echo:
    """A state machine for a worker that replies with the message, repeated."""

    def handle(self, message: bytes) -> bytes:
        if message == b"die":
            os._exit(3)
        return message * 3


@pytest.mark.parametrize("workers", [SystemWorkers(), InlineWorkers(InlineOffLoop())])
async def test_a_worker_replies_to_each_message(workers) -> None:
    async with workers.start(Echo) as worker, workers.start(Echo) as other:
        for size in (0, 1, 1_000_000):
            assert await worker.ask(bytes(size)) == bytes(3 * size)
            assert await other.ask(b"x" * size) == b"x" * 3 * size


async def test_the_compactor_runs_in_a_worker_process() -> None:
    async with SystemWorkers().start(Compactor) as worker:
        assert await worker.ask(BEGIN) == NONE


async def test_a_request_to_a_killed_worker_raises_worker_gone() -> None:
    async with SystemWorkers().start(Echo) as worker:
        with pytest.raises(WorkerGone):
            await worker.ask(b"die")
        with pytest.raises(WorkerGone):
            await worker.ask(b"more")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_worker_ignores_sigint_and_sigterm(number: signal.Signals) -> None:
    async with SystemWorkers().start(Echo) as worker:
        await worker.ask(b"")
        worker._process.send_signal(number)
        assert await worker.ask(b"a") == b"aaa"


async def test_cancelling_the_owner_of_a_worker_ends_its_process() -> None:
    with trio.move_on_after(0.05) as waiting:
        async with SystemWorkers().start(Echo) as worker:
            while True:
                await worker.ask(bytes(1_000_000))
    assert waiting.cancelled_caught


async def test_a_worker_that_cannot_be_started_raises_worker_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerGone, match="cannot start a process"):
        async with SystemWorkers().start(Echo):
            pass


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker process with pipes to the test."""
    command = [sys.executable, "-m", PROGRAM, __name__, "Echo"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_worker_ends_without_output_when_its_parent_is_killed_before_the_reply(
    child: subprocess.Popen[bytes], size: int
) -> None:
    """Writing a long reply to the pipe fails at once, and a short reply fails when it is flushed."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdin.write(b"\0\0\0\1a")
    child.stdin.flush()
    assert child.stdout.read(4 + 3) == b"\0\0\0\3aaa", "the worker process is running"
    child.stdout.close()
    child.stdin.write(size.to_bytes(4, "big") + bytes(size))
    child.stdin.close()
    assert child.stderr.read() == b""
    assert child.wait(ENDS_S_MAX) == 0


@pytest.mark.parametrize("rest", [b"\0", b"\0\0\0\7", b"\0\0\0\7half"])
def test_a_worker_does_not_reply_to_an_incomplete_message(rest: bytes) -> None:
    outgoing = BytesIO()
    answer(__name__, "Echo", BytesIO(b"\0\0\0\1a" + rest), outgoing)
    assert outgoing.getvalue() == b"\0\0\0\3aaa"


def test_a_worker_ends_when_its_input_is_closed() -> None:
    outgoing = BytesIO()
    answer(__name__, "Echo", BytesIO(b"\0\0\0\2hi" + b"\0\0"), outgoing)
    assert outgoing.getvalue() == b"\0\0\0\6hihihi"
