"""Calls of the producer that are interrupted at places of their code, in every face.

After each interrupt the producer goes on: nothing that it has acknowledged is lost, nothing is written twice, no lock
is taken, no memory is missing, and no call hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.unit.client.interrupts import LONG_STRIDE, each_interrupt
from tests.unit.producer.conftest import delayed
from tests.unit.producer.hosted import Call, wait_until
from tests.unit.producer.interrupted import (
    CLIENT,
    ERRORS,
    PRODUCER,
    RAISED,
    SMALL,
    WAITING,
    AsyncFace,
    SyncFace,
    TrioFace,
    handle_sigint,
    nothing,
    raise_system_exit,
    run_asyncio,
    run_trio,
    sync_face,
)
from wire.api import ApiKey

# ---- threads


@pytest.fixture(params=["threads", "drop-in"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def interrupt_all(
    face: SyncFace, call: Callable[[], Any], before: Callable[[], None] = lambda: None, files: tuple[str, ...] = CLIENT
) -> Iterator[None]:
    """Interrupt a call at its places, and check the producer after each. Yield before that."""
    for each in each_interrupt(ERRORS, *files):
        before()
        try:
            with each:
                sent = call()
        except RAISED:
            assert each.at is not None
        else:
            face.sent += [sent] if sent is not None else []
        yield
        face.check(each)


class TestThreads:
    """A producer for threads, and the drop-in for kafka-python."""

    @pytest.mark.parametrize("key", [None, b"key"])
    def test_send(self, kind: str, key: bytes | None) -> None:
        with sync_face(kind) as face:
            for _ in interrupt_all(face, partial(face.send, 1 if key else None, key)):
                face.sent.append(face.send())
                face.check_sent()

    def test_send_to_an_open_batch(self, kind: str) -> None:
        with sync_face(kind, linger_ms=100_000) as face:
            for _ in interrupt_all(face, partial(face.send, 0, b"key"), lambda: face.sent.append(face.send(0))):
                pass

    def test_send_many(self, kind: str) -> None:
        with sync_face(kind) as face:
            for _ in interrupt_all(face, face.send_many):
                pass

    def test_send_in_line_for_memory(self, kind: str) -> None:
        with sync_face(kind, **SMALL) as face:
            releases: list[tuple[Call, threading.Event]] = []

            def fill() -> None:
                face.flush()
                face.net.hold(ApiKey.PRODUCE)
                face.sent += [face.send(0), face.send(1)]
                is_over = threading.Event()
                releases.append((Call(release_when, face, is_over), is_over))

            for _ in interrupt_all(face, partial(face.send, 2), fill, WAITING):
                release, is_over = releases.pop()
                is_over.set()
                release.join()
                face.flush()

    def test_flush(self, kind: str) -> None:
        with sync_face(kind, linger_ms=100_000) as face:
            for _ in interrupt_all(face, face.flush, lambda: face.sent.append(face.send())):
                pass


def release_when(face: SyncFace, is_over: threading.Event) -> None:
    """Answer the requests that are held, once a call stands in line or has ended."""
    wait_until(lambda: is_over.is_set() or face.producer.shell.pool.waiting)
    face.net.release()


# ---- trio


async def interrupt_all_in_trio(
    face: TrioFace,
    call: Callable[[], Awaitable[Any]],
    before: Callable[[], Awaitable[None]] = nothing,
    files: tuple[str, ...] = PRODUCER,
) -> None:
    """Send SIGINT at places of a call."""
    for each in each_interrupt([handle_sigint], *files):
        await before()
        await face.attempt(call, each)
        await face.check(each)


async def cancel_all_in_trio(
    face: TrioFace,
    call: Callable[[], Awaitable[Any]],
    before: Callable[[], Awaitable[None]] = nothing,
    files: tuple[str, ...] = WAITING,
) -> None:
    """Cancel a call at places of it."""
    for each in each_interrupt([face.cancel], *files):
        await before()
        await face.attempt(call, each)
        await face.check(each)


async def exit_all_in_trio(
    face: TrioFace,
    call: Callable[[], Awaitable[Any]],
    before: Callable[[], Awaitable[None]] = nothing,
    files: tuple[str, ...] = PRODUCER,
) -> None:
    """Raise SystemExit at places of a call. Each ends the program that makes the call."""
    for each in each_interrupt([raise_system_exit], *files, stride=LONG_STRIDE, counts=face.has_task):
        async with face.program(each):
            face.sent.append(await face.send())
            await before()
            with each:
                found = await call()
            face.sent += [found] if found is not None else []


@pytest.mark.parametrize("interrupt_each", [interrupt_all_in_trio, cancel_all_in_trio, exit_all_in_trio])
class TestTrio:
    """A producer for trio."""

    @pytest.mark.parametrize("key", [None, b"key"])
    def test_send(self, interrupt_each: Any, key: bytes | None) -> None:
        run_trio(lambda face: interrupt_each(face, partial(face.send, 1 if key else None, key)))

    def test_send_many(self, interrupt_each: Any) -> None:
        run_trio(lambda face: interrupt_each(face, face.send_many, files=WAITING))

    def test_send_in_line_for_memory(self, interrupt_each: Any) -> None:
        async def test(face: TrioFace) -> None:
            async def fill() -> None:
                await face.producer.flush()
                face.sent += [await face.send(0), await face.send(1)]

            face.cluster.script(ApiKey.PRODUCE, delayed)
            await interrupt_each(face, partial(face.send, 2), fill, WAITING)

        run_trio(test, **SMALL)

    def test_flush(self, interrupt_each: Any) -> None:
        files = (*WAITING, "pykbroker/producer/shell.py")
        run_trio(lambda face: interrupt_each(face, face.flush, files=files), linger_ms=1000)


# ---- asyncio


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", [AsyncFace.send, AsyncFace.send_many, AsyncFace.flush])
def test_a_producer_for_asyncio(call: Any) -> None:
    async def test(face: AsyncFace) -> None:
        for each in each_interrupt(face.acts, *PRODUCER):
            await face.attempt(partial(call, face), each)
            await face.check(each)

    run_asyncio(test)


class Interrupting:
    """An interceptor whose end meets Ctrl-C."""

    def close(self) -> None:
        handle_sigint()


def test_a_second_ctrl_c_at_the_end_of_a_block_is_raised_as_it_is() -> None:
    async def test(_face: TrioFace) -> None:
        raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as caught:
        run_trio(test, interceptors=[Interrupting()])
    assert [type(each) for each in caught.value.exceptions] == [KeyboardInterrupt]  # in the group of the test's nursery
