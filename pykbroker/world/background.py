"""A trio loop in a background thread, for callers that do not run trio themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class BackgroundLoop:
    """A daemon thread that runs `main` on trio until it is stopped.

    The thread does not survive a fork: every call in a child process raises RuntimeError.
    """

    def __init__(self, name: str, main: Callable[[], Awaitable[Any]]) -> None:
        self._name, self._main = name, main
        self._process = os.getpid()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, and return once the loop runs."""
        self._thread.start()
        self._started.wait()

    def check(self) -> None:
        """Raise RuntimeError in a process that was forked after the start, or if the loop has failed."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self._name} was made in process {self._process}, and a fork does not copy its thread: make another "
                "one in the child process"
            )
        if self._failure is not None:
            raise RuntimeError(f"{self._name} has failed: {self._failure!r}") from self._failure

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs in the background thread, where it may not block."""
        return threading.get_ident() == self._thread.ident

    def call_soon(self, function: Callable[[], Any]) -> None:
        """Call a function in the loop soon, once for any number of calls before it runs."""
        assert self._token is not None, "the loop is not started"
        try:
            self._token.run_sync_soon(function, idempotent=True)
        except trio.RunFinishedError:
            self.check()

    def call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the loop, and return its result. Raise trio.RunFinishedError after the end."""
        self.check()
        if self.is_current_thread:
            raise RuntimeError(f"a callback of {self._name} must not wait: hand the work to another thread")
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def stop(self) -> None:
        """Cancel `main` and wait for the end of the thread. A second call does nothing."""
        if os.getpid() == self._process and self._thread.is_alive():
            self.call_soon(self._scope.cancel)
            if not self.is_current_thread:
                self._thread.join()

    def _run(self) -> None:
        try:
            trio.run(self._run_main)
        except BaseException as error:  # noqa: BLE001 - the next call raises it
            self._failure = error
        finally:
            self._started.set()

    async def _run_main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            self._started.set()
            await self._main()
