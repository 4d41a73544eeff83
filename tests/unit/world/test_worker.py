"""A machine in another process: it answers, fails, and ends with whoever started it."""

from __future__ import annotations

import os
import signal
import sys
from io import BytesIO

import msgspec
import pytest
import trio

from pykbroker.core.compaction.compactor import Begin, Compactor
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.worker import InlineWorkers
from pykbroker.world.system_worker import SystemWorkers
from pykbroker.world.worker import WorkerGone
from pykbroker.world.worker_process import answer

BEGIN = msgspec.msgpack.encode(Begin(0, 1, 0, 0, 1, []))
NONE = msgspec.msgpack.encode(None)


class Echo:
    """Answers with what it was told, often."""

    def handle(self, message: bytes) -> bytes:
        if message == b"die":
            os._exit(3)
        return message * 3


@pytest.mark.parametrize("workers", [SystemWorkers(), InlineWorkers(InlineOffLoop())])
async def test_each_message_is_answered(workers) -> None:
    async with workers.start(Echo) as worker, workers.start(Echo) as other:
        for size in (0, 1, 1_000_000):
            assert await worker.ask(bytes(size)) == bytes(3 * size)
            assert await other.ask(b"x" * size) == b"x" * 3 * size


async def test_the_compactor_runs_there() -> None:
    async with SystemWorkers().start(Compactor) as worker:
        assert await worker.ask(BEGIN) == NONE


async def test_a_process_that_dies_is_gone() -> None:
    async with SystemWorkers().start(Echo) as worker:
        with pytest.raises(WorkerGone):
            await worker.ask(b"die")
        with pytest.raises(WorkerGone):
            await worker.ask(b"more")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_leaves_the_signals_that_both_get_to_its_parent(number: signal.Signals) -> None:
    async with SystemWorkers().start(Echo) as worker:
        await worker.ask(b"")
        worker._process.send_signal(number)
        assert await worker.ask(b"a") == b"aaa"


async def test_who_is_cancelled_ends_it() -> None:
    with trio.move_on_after(0.05) as waiting:
        async with SystemWorkers().start(Echo) as worker:
            while True:
                await worker.ask(bytes(1_000_000))
    assert waiting.cancelled_caught


async def test_where_no_process_can_be_started_there_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerGone, match="starts no process"):
        async with SystemWorkers().start(Echo):
            pass


def test_it_ends_when_nobody_writes_any_more() -> None:
    outgoing = BytesIO()
    answer(__name__, "Echo", BytesIO(b"\0\0\0\2hi" + b"\0\0"), outgoing)
    assert outgoing.getvalue() == b"\0\0\0\6hihihi"
