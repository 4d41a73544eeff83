"""Work off the loop on this machine: a thread of trio's pool (a hop costs about 0.1 ms).

What a function raises crosses from the thread in a list, which is emptied when the loop raises it. An exception that
trio itself carries over stays referenced by a frame of its own traceback: only the garbage collector, which runs seldom
here, frees it, with every buffer of the function that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

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
        errors: list[Exception] = []
        answer = await trio.to_thread.run_sync(answered, function, args, errors, limiter=self._limiter)
        if errors:
            raise errors.pop()
        return cast(T, answer)


def answered(function: Callable[..., T], args: tuple[object, ...], errors: list[Exception]) -> T | None:
    """Call the function and return its result; what it raises goes to `errors`."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - the loop raises it
        errors.append(error)
        return None
