"""The end of a command by SIGINT or SIGTERM, after which it still completes what it has begun."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from pykbroker.cli.signals import SIGNAL_EXIT_CODE, STOPPING


class Interruption:
    """The first signal or the end of the time, and the waits that it cancels."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_stopped = False
        self._scopes: set[trio.CancelScope] = set()

    @contextmanager
    def cancels(self) -> Iterator[None]:
        """Cancel the block when the run is stopped, or at once if it has been."""
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            if self.is_stopped:
                scope.cancel()
            try:
                yield
            finally:
                self._scopes.discard(scope)

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Handle signals until cancelled. The second one ends the process at once."""
        async for number in signals:
            if self.signal is not None:
                os._exit(SIGNAL_EXIT_CODE + number)
            self.signal = number
            self.stop()

    async def stop_after(self, seconds: float) -> None:
        """Stop the run after a time."""
        await trio.sleep(seconds)
        self.stop()

    def stop(self) -> None:
        """Stop the run, and cancel its waits."""
        self.is_stopped = True
        for scope in self._scopes:
            scope.cancel()


@asynccontextmanager
async def interruptible() -> AsyncIterator[Interruption]:
    """Handle SIGINT and SIGTERM during the block."""
    interruption = Interruption()
    with trio.open_signal_receiver(*STOPPING) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interruption.watch, signals)
            yield interruption
            nursery.cancel_scope.cancel()
