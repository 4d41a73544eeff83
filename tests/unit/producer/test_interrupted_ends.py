"""The end of transactions and of producers, interrupted at places of its code, in every face.

What was committed is there once, what was aborted is not there, and no transaction stays open. A producer whose close
was interrupted is closed by another call, and each of its records has an outcome.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.core.producer.errors import IllegalCall
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.errors import IllegalStateError
from pykbroker.producer.async_producer import AsyncProducer
from pykbroker.sim.scripted.log import ScriptedLog
from tests.unit.client.interrupts import LONG_STRIDE, STRIDE, Interrupt, each_interrupt
from tests.unit.producer.hosted import SETTINGS, WAIT_S, Call, HostedNet, wait_until
from tests.unit.producer.interrupted import (
    CLIENT,
    ERRORS,
    PRODUCER,
    RAISED,
    AsyncFace,
    SyncFace,
    TrioFace,
    check_memory,
    drive,
    raise_system_exit,
    run_asyncio,
    run_trio,
    sync_face,
    trio_producer,
)

TRANSACTIONAL = {"transactional_id": "t"}
BACKGROUND = "pykbroker/world/background.py"
ILLEGAL = (IllegalCall, IllegalStateError)
STEPS = pytest.mark.parametrize("step", ["begin", "commit", "abort"])
UNAWAITED = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
)
Face = SyncFace | TrioFace | AsyncFace


class Transactions:
    """Transactions of one record each, of which one step is interrupted, and their outcomes."""

    def __init__(self, face: Face, step: str, files: tuple[str, ...]) -> None:
        self._face, self._step, self._files = face, step, files
        self._outcomes: list[tuple[bytes, bool]] = []
        """The values, and whether their transactions are committed."""

    async def run(self) -> None:
        """Interrupt the step at its places."""
        stride = LONG_STRIDE if isinstance(self._face, TrioFace) else STRIDE
        for each in each_interrupt(self._face.acts, *self._files, stride=stride):
            await self._transact(each)
            check_memory(self._face.shell, each)

    async def _transact(self, each: Interrupt) -> None:
        face, is_committed = self._face, self._step != "abort"
        if self._step != "begin":
            await face.begin()
        elif not await face.attempt(face.begin, each):
            with suppress(*ILLEGAL):  # the transaction has begun
                await face.begin()
        [value], _ = await face.put()
        end = face.commit if is_committed else face.abort
        if self._step == "begin":
            await end()
        else:
            has_returned = await face.attempt(end, each)
            try:
                await end()
            except ILLEGAL:  # the application, or what has run the call for it, has got the result before
                is_early = str(each.at).startswith(BACKGROUND) or isinstance(face, TrioFace)
                assert has_returned or not is_early, f"{each.at}: the result is lost"
        self._outcomes.append((value, is_committed))

    def check(self) -> None:
        """Compare the topic with the outcomes, once the markers of all transactions are written."""
        written = Counter(record.value for log in logs_of(self._face) for record in log.committed_records)
        assert written == Counter(value for value, is_committed in self._outcomes if is_committed)


def logs_of(face: Face) -> list[ScriptedLog]:
    return [face.cluster.state.log(TopicPartition("topic", index)) for index in range(3)]


def are_ended(face: Face) -> bool:
    """Whether no transaction is open, and all markers are written."""
    return all(log.last_stable_offset == log.end_offset for log in logs_of(face))


@STEPS
@pytest.mark.parametrize("kind", ["threads", "drop-in"])
def test_transactions_of_threads(kind: str, step: str) -> None:
    with sync_face(kind, **TRANSACTIONAL) as face:
        drive(face.init())
        transactions = Transactions(face, step, CLIENT)
        drive(transactions.run())
        wait_until(lambda: are_ended(face))
        transactions.check()


@STEPS
def test_transactions_on_trio(step: str) -> None:
    async def test(face: TrioFace) -> None:
        await face.producer.init_transactions()
        transactions = Transactions(face, step, PRODUCER)
        await transactions.run()
        await trio.testing.wait_all_tasks_blocked()
        assert are_ended(face)
        transactions.check()

    run_trio(test, **TRANSACTIONAL)


@STEPS
def test_transactions_on_trio_that_system_exit_ends(step: str) -> None:
    async def test(face: TrioFace) -> None:
        returned, aborted = [], []
        for each in each_interrupt([raise_system_exit], *PRODUCER, stride=LONG_STRIDE, counts=face.has_task):
            async with face.program(each):
                await face.producer.init_transactions()
                with each if step == "begin" else nullcontext():
                    await face.begin()
                [value], _ = await face.put()
                if step == "abort":
                    aborted.append(value)
                with each if step != "begin" else nullcontext():
                    await (face.abort() if step == "abort" else face.commit())
                if step != "abort":
                    returned.append(value)
        assert are_ended(face)
        written = Counter(record.value for log in logs_of(face) for record in log.committed_records)
        assert written.keys() >= set(returned)
        assert not written.keys() & set(aborted)

    run_trio(test, **TRANSACTIONAL)


@UNAWAITED
@STEPS
def test_transactions_on_asyncio(step: str) -> None:
    async def test(face: AsyncFace) -> None:
        transactions = Transactions(face, step, (*PRODUCER, BACKGROUND))
        await transactions.run()
        wait_until(lambda: are_ended(face))
        transactions.check()

    run_asyncio(test, **TRANSACTIONAL)


def test_init_transactions_of_the_drop_in() -> None:
    for each in each_interrupt(ERRORS, *CLIENT):
        with sync_face("drop-in", **TRANSACTIONAL) as face:
            assert face.drop_in is not None
            init = face.drop_in.init_transactions
            drive(face.attempt(partial(call, init), each))
            init()
            drive(face.begin())
            face.sent.append(face.send())
            init()  # which does nothing
            drive(face.commit())


async def call(function: Callable[[], None]) -> None:
    """Call a function as a coroutine that never waits."""
    function()


# ---- close


@pytest.mark.parametrize("kind", ["threads", "drop-in"])
def test_close_of_threads(kind: str) -> None:
    for each in each_interrupt(ERRORS, *CLIENT):
        with sync_face(kind, linger_ms=100_000) as face:
            face.sent.append(face.send())
            close = (face.drop_in or face.producer).close
            try:
                with each:
                    close()
            except RAISED:
                assert each.at is not None
                face.sent.pop()  # it may have failed
            assert not face.producer.lock.is_mine, each.at
            Call(close).join()
            check_closed(face, each)


def check_closed(face: Face, each: Interrupt) -> None:
    """Check that each record has an outcome, and all memory has been returned."""
    assert not face.shell.accumulator.incomplete.batches(), each.at


@pytest.mark.parametrize("name", ["aclose", "__aexit__"])
@pytest.mark.parametrize("settings", [{"linger_ms": 100_000}, TRANSACTIONAL], ids=["records", "transaction"])
def test_close_on_trio(name: str, settings: dict[str, Any]) -> None:
    async def test(face: TrioFace) -> None:
        for each in each_interrupt(face.acts, *PRODUCER, stride=LONG_STRIDE):
            await close_on_trio(face, name, settings, each)
        exits = each_interrupt([raise_system_exit], *PRODUCER, stride=LONG_STRIDE, counts=face.has_task)
        for each in exits if name == "aclose" else ():  # SystemExit in __aexit__ may leave trio's nursery open
            await exit_from_close(face, settings, each)
        await trio.testing.wait_all_tasks_blocked()
        assert are_ended(face)

    run_trio(test)


async def close_on_trio(face: TrioFace, name: str, settings: dict[str, Any], each: Interrupt) -> None:
    """Interrupt the end of a new producer."""
    face.producer = trio_producer(face.net, **settings)
    deliveries: list[Any] = []

    async def begin() -> None:
        await face.producer.__aenter__()
        if settings is TRANSACTIONAL:
            await face.producer.init_transactions()
            await face.begin()
        deliveries.append((await face.send())[1])

    async def end() -> None:
        await face.producer.__aexit__(None, None, None)

    if name == "aclose":
        with trio.CancelScope():
            await begin()
            await face.attempt(face.producer.aclose, each)
            await end()
    else:
        await face.attempt(end, each, begin)
    assert all(each.is_done for each in deliveries), each.at
    check_closed(face, each)


async def exit_from_close(face: TrioFace, settings: dict[str, Any], each: Interrupt) -> None:
    """Let SystemExit end a new producer that is being closed."""
    async with face.program(each, **settings):
        if settings is TRANSACTIONAL:
            await face.producer.init_transactions()
            await face.begin()
        face.sent.append(await face.send())
        with each:
            await face.producer.aclose()


@UNAWAITED
def test_close_on_asyncio() -> None:
    faces: list[AsyncFace] = []

    async def main() -> None:
        for each in each_interrupt((*ERRORS, lambda: faces[-1].cancel()), *PRODUCER, BACKGROUND):
            net = HostedNet()
            producer = AsyncProducer(world=net.world(), **SETTINGS | {"linger_ms": 100_000})
            await producer.start()
            net.wait_running()
            faces.append(face := AsyncFace(net, producer))
            _, delivery = await face.send()
            if await face.attempt(producer.stop, each):
                assert delivery.result().offset >= 0
            await asyncio.wait_for(producer.stop(), WAIT_S)
            assert delivery.done(), each.at
            check_closed(face, each)

    asyncio.run(main())
