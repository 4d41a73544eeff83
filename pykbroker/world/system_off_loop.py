"""Work off the loop on this machine: a thread of trio's pool (a hop costs about 0.1 ms)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


class SystemOffLoop:
    """Threads, at most `threads_max` at a time; who comes later waits in line."""

    def __init__(self, threads_max: int = 16) -> None:
        self._threads = threads_max
        self._limiter: trio.CapacityLimiter | None = None

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Not cancelled while the function runs: a write half done is nobody's wish."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(self._threads)
        return await trio.to_thread.run_sync(function, *args, limiter=self._limiter)
