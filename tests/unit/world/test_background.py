"""The trio loop in a background thread: calls end when the loop ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from pykbroker.world.background import BackgroundLoop, LoopEnded, run_in_background


class Planted(Exception):
    """The error of a crash that a test has asked for."""


class Crashing:
    """The main function of a loop, which fails on demand."""

    def __init__(self) -> None:
        self._crash = trio.Event()

    async def main(self) -> None:
        await self._crash.wait()
        raise Planted("planted")

    async def crash_and_wait(self) -> None:
        """Let the loop fail, and wait for ever."""
        self._crash.set()
        await trio.sleep_forever()


@contextmanager
def running(
    main: Callable[[], Awaitable[Any]] = trio.sleep_forever, ended: Callable[[Any], None] | None = None
) -> Iterator[BackgroundLoop]:
    """Run a loop while the block runs."""
    loop = BackgroundLoop("loop", main, ended)
    loop.start()
    try:
        yield loop
    finally:
        loop.stop()


def test_a_call_returns_its_result_or_raises_its_error() -> None:
    async def divide(dividend: int, divisor: int) -> float:
        return dividend / divisor

    with running() as loop:
        assert loop.call(divide, 6, 3) == 2
        with pytest.raises(ZeroDivisionError):
            loop.call(divide, 6, 0)


@pytest.mark.timeout(10)
def test_a_call_ends_with_the_error_of_a_loop_that_fails() -> None:
    crashing = Crashing()
    with running(crashing.main) as loop:
        with pytest.raises(LoopEnded, match=r"loop has failed.*planted") as caught:
            loop.call(crashing.crash_and_wait)
        assert isinstance(caught.value.__cause__, Planted)
        with pytest.raises(LoopEnded, match="loop has failed"):
            loop.call(trio.sleep, 0)


@pytest.mark.timeout(10)
def test_a_call_ends_with_a_loop_that_is_stopped() -> None:
    began = threading.Event()

    async def wait() -> None:
        began.set()
        await trio.sleep_forever()

    with running() as loop:
        future = loop.submit(wait)
        assert began.wait(10)
    with pytest.raises(LoopEnded, match="loop has ended"):
        future.result(10)
    with pytest.raises(LoopEnded, match="loop has ended"):
        loop.call(trio.sleep, 0)


@pytest.mark.timeout(10)
def test_a_cancelled_future_cancels_its_function() -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    with running() as loop:
        future = loop.submit(wait)
        assert began.wait(10)
        assert future.cancel()
        assert ended.wait(10)


@pytest.mark.timeout(10)
def test_a_loop_of_one_function_ends_with_it() -> None:
    async def identify(fails: bool = False) -> int:
        if fails:
            raise Planted("planted")
        return threading.get_ident()

    assert run_in_background("loop", identify) != threading.get_ident()
    with pytest.raises(Planted):
        run_in_background("loop", lambda: identify(fails=True))


@pytest.mark.parametrize("fails", [False, True])
def test_the_owner_hears_of_the_end(fails: bool) -> None:
    crashing = Crashing()
    failures: list[BaseException | None] = []
    with running(crashing.main, failures.append) as loop:
        if fails:
            with pytest.raises(LoopEnded):
                loop.call(crashing.crash_and_wait)
    assert [type(failure) for failure in failures] == [Planted if fails else type(None)]


def test_a_thread_with_the_identifier_of_an_ended_loop_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as loop:
        ended = loop.call(identifier)
        assert not loop.is_current_thread
    monkeypatch.setattr(threading, "get_ident", lambda: ended)
    loop.check_may_wait()


async def identifier() -> int:
    return threading.get_ident()


class Interrupted(Exception):
    """The error that a signal handler raises."""


@pytest.mark.timeout(10)
def test_a_loop_whose_end_was_waited_for_in_vain_is_waited_for_again() -> None:
    """The join of a thread that a signal handler interrupts lets Python 3.11 take the thread for ended."""
    released, was_interrupted, thread = threading.Event(), threading.Event(), threading.get_ident()

    def interrupt(*_given: object) -> None:
        if not was_interrupted.is_set():
            was_interrupted.set()
            raise Interrupted

    def ended(_failure: BaseException | None) -> None:
        while not was_interrupted.is_set():  # a signal right before the wait does not end it
            if sys._current_frames()[thread].f_code.co_name in ("wait", "_wait_for_tstate_lock"):
                signal.pthread_kill(thread, signal.SIGUSR1)
        assert released.wait(10)

    loop = BackgroundLoop("loop", trio.sleep_forever, ended)
    loop.start()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted):
            loop.stop()
        assert not loop.join(0)
        released.set()
        assert loop.join(10)
    finally:
        signal.signal(signal.SIGUSR1, before)
