"""Work off the loop on this machine: threads of trio's pool. A hop to a thread and back costs about 0.1 ms.

A function's error crosses from the thread in a list, and the list is emptied when the loop raises the error. An error
that trio itself carries over stays referenced by a frame of its own traceback. Only the garbage collector, which runs
seldom here, would free it, with every buffer of the failed function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import trio

T = TypeVar("T")


class SystemOffLoop:
    """At most `threads_max` threads at a time; further callers wait in line."""

    def __init__(self, threads_max: int = 16) -> None:
        self._threads = threads_max
        self._limiter: trio.CapacityLimiter | None = None

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Call the function in a thread. A cancellation waits until it has returned: no write is left half done."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(self._threads)
        errors: list[Exception] = []
        answer = await trio.to_thread.run_sync(answered, function, args, errors, limiter=self._limiter)
        if errors:
            raise errors.pop()
        return cast(T, answer)


def answered(function: Callable[..., T], args: tuple[object, ...], errors: list[Exception]) -> T | None:
    """Call the function and return its result, or append its error to `errors` and return None."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - the loop raises it
        errors.append(error)
        return None
