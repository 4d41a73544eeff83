"""Work off the event loop, in threads of trio's pool. A call in a thread costs about 0.1 ms.

An error of a function is passed from the thread to the event loop as a value: in a list, which is emptied when the
error is raised, and without the local variables of the function. If trio passed the error, or if the function referred
to it, a frame of the error's own traceback would refer to the error. Only the garbage collector, which runs rarely in
the broker, would then free it and all buffers of the failed function.
"""

from __future__ import annotations

from collections.abc import Callable
from traceback import clear_frames
from typing import TypeVar, cast

import trio

T = TypeVar("T")


class SystemOffLoop:
    """An `OffLoop` with at most `threads_max` threads at a time. Further callers wait in order."""

    def __init__(self, threads_max: int = 16) -> None:
        self._threads = threads_max
        self._limiter: trio.CapacityLimiter | None = None

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        """Call the function in a thread.

        A cancellation waits until the function has returned, so that no write stays incomplete.
        """
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
        forget_variables(error)
        errors.append(error)
        return None


def forget_variables(error: BaseException | None) -> None:
    """Clear the local variables of all functions through which an error and its causes have passed."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
