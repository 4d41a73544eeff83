"""A trio loop in a background thread, for callers that do not run trio themselves."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future as Future
from concurrent.futures import InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

import trio

from pykbroker.world.latch import Latch
from pykbroker.world.one_process import OneProcess

T = TypeVar("T")


class LoopEnded(RuntimeError):
    """The error of a call to a background loop that has ended or failed before the call had a result."""


class BackgroundLoop:
    """A daemon thread that runs `main` on trio until it is stopped.

    The thread does not survive a fork: every call in a child process raises RuntimeError. `ended` is called in the
    thread after the end of the loop, with the error of `main` if it has failed.
    """

    def __init__(
        self, name: str, main: Callable[[], Awaitable[Any]], ended: Callable[[BaseException | None], None] | None = None
    ) -> None:
        self._name, self._main, self._ended = name, main, ended
        self._process = OneProcess(name, lost="a fork does not copy its thread")
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._started, self._is_over = Latch(), False
        self._joining: deque[Latch] = deque()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, and return once the loop runs."""
        self._thread.start()
        self._started.wait()

    def check(self) -> None:
        """Raise RuntimeError in a process that was forked after the start, and LoopEnded if the loop has failed."""
        if self._failure is not None or not self._process.is_current:  # inline, because each record passes here
            self.check_process()
            raise self._end_error()

    def check_process(self) -> None:
        """Raise RuntimeError in a process that was forked after the start."""
        self._process.check()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs in the background thread, where it may not block."""
        return threading.current_thread() is self._thread

    def check_may_wait(self) -> None:
        """Raise RuntimeError in the background thread."""
        if self.is_current_thread:
            raise RuntimeError(f"a callback of {self._name} must not wait: hand the work to another thread")

    def call_soon(self, function: Callable[[], Any]) -> None:
        """Call a function in the loop soon, once for any number of calls before it runs."""
        assert self._token is not None, "the loop is not started"
        try:
            self._token.run_sync_soon(function, idempotent=True)
        except trio.RunFinishedError:
            self.check()

    def call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the loop, and return its result. Raise LoopEnded if the loop ends first.

        An interrupted call cancels the function.
        """
        self.check_may_wait()
        self.check()
        done, future = Latch(), Future[T]()
        future.add_done_callback(lambda _: done.set())
        try:
            self._run_soon(future, function, args)
            done.wait()
        except BaseException:
            with suppress(LoopEnded):
                self.call_soon(future.cancel)
            raise
        return future.result()

    async def call_async(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call a function as `call` does, from asyncio. A cancelled call cancels the function."""
        import asyncio  # here, since the other faces start sooner without it

        self.check()
        future: Future[T] = Future()
        outcome = asyncio.wrap_future(future)
        self._run_soon(future, function, args)
        return await outcome

    def submit(
        self, function: Callable[..., Awaitable[T]], *args: Any, done: Callable[[Future[T]], object] | None = None
    ) -> Future[T]:
        """Start an async function in the loop, and return its future. Cancelling the future cancels the function.

        `done` is called with the future once its outcome is known, in the loop.
        """
        self.check()
        future: Future[T] = Future()
        if done is not None:
            future.add_done_callback(done)
        self._run_soon(future, function, args)
        return future

    def _run_soon(self, future: Future[T], function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        """Let the loop run a function for a future.

        From here on until its outcome is known, no thread in which signal handlers run may call the future: an error
        that a handler raises in the code of `concurrent.futures` may leave its lock taken, and the loop waits for ever.
        """
        assert self._token is not None, "the loop is not started"
        try:
            self._token.run_sync_soon(self._spawn, future, function, args)
        except trio.RunFinishedError:
            settle(future, error=self._end_error())

    def _spawn(self, future: Future[T], function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        try:
            trio.lowlevel.spawn_system_task(self._fulfil, future, function, args)
        except RuntimeError:  # the loop is ending
            settle(future, error=self._end_error())

    async def _fulfil(self, future: Future[T], function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        """Set the result of a future, whose cancellation cancels the function."""
        scope = trio.CancelScope()
        future.add_done_callback(lambda _: self.call_soon(scope.cancel) if future.cancelled() else None)
        try:
            with scope:
                settle(future, await function(*args))
        except trio.Cancelled:
            settle(future, error=self._end_error())
            raise
        except BaseException as error:  # noqa: BLE001 - the caller gets the error
            settle(future, error=error)

    def _end_error(self) -> LoopEnded:
        if self._failure is None:
            return LoopEnded(f"{self._name} has ended")
        error = LoopEnded(f"{self._name} has failed: {self._failure!r}")
        error.__cause__ = self._failure
        return error

    def stop_soon(self) -> None:
        """Cancel `main`. A second call does nothing, nor one after a failure."""
        if self._process.is_current and not self._is_over:
            with suppress(LoopEnded):
                self.call_soon(self._scope.cancel)

    def stop(self) -> None:
        """Cancel `main` and wait for the end of the thread, as `stop_soon` does."""
        self.stop_soon()
        if self._process.is_current and not self.is_current_thread:
            self.join()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread. Return False after the time-out.

        A join of the thread that a signal handler interrupts would let Python 3.11 take it for ended, since it runs.
        """
        done = Latch()
        self._joining.append(done)
        if self._is_over:
            done.set()
        is_over = done.wait(timeout_s)
        if is_over:
            self._thread.join()  # which has nothing left to do
        return is_over

    def _run(self) -> None:
        try:
            trio.run(self._run_main)
        except BaseException as error:  # noqa: BLE001 - the next call raises it
            self._failure = cause_of(error) or self._failure or error
        finally:
            self._started.set()
            try:
                if self._ended is not None:
                    self._ended(self._failure)
            finally:
                self._is_over = True
                for joining in list(self._joining):
                    joining.set()

    async def _run_main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        try:
            with self._scope:
                self._started.set()
                await self._main()
        except BaseException as error:
            self._failure = cause_of(error) or error  # calls that are cancelled now get it
            raise


def run_in_background(name: str, function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function in a trio loop and a thread of its own, and return its result. Raise its error.

    An interrupt of the caller cancels the function. Inside of a loop in the caller's thread it would become a group of
    errors, or one of trio.
    """
    done, future = Latch(), Future[T]()
    future.add_done_callback(lambda _: done.set())

    async def main() -> None:
        try:
            settle(future, await function())
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            settle(future, error=error)
        finally:
            future.cancel()

    loop = BackgroundLoop(name, main)
    loop.start()
    try:
        done.wait()
    finally:
        loop.stop()
    return future.result()


def cause_of(error: BaseException) -> BaseException | None:
    """Return the first error of a group that is no cancellation, or None if there is no such error.

    trio wraps the error of a task in a group for each nursery, and that of a callback in a TrioInternalError.
    """
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := cause_of(each)) is not None), None)
    if isinstance(error, trio.TrioInternalError) and error.__cause__ is not None:
        return cause_of(error.__cause__)
    return None if isinstance(error, trio.Cancelled) else error


def settle(future: Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    """Set the result or the error of a future, unless it was cancelled."""
    try:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    except InvalidStateError:
        return
