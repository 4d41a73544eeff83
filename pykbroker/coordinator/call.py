"""One caller of a machine: the token that stands for it, and what it is told in the end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import trio

from pykbroker.core.errors import ApiError
from wire.declare import Response
from wire.error_codes import ErrorCode

R = TypeVar("R")


class Call:
    """Settled once, with a response or a refusal. Most are at once, so an event is made only for one who waits."""

    __slots__ = ("_error", "_event", "_response", "settled")

    def __init__(self) -> None:
        self.settled = False
        self._response: Any = None
        self._error: ApiError | None = None
        self._event: trio.Event | None = None

    def settle(self, response: Any) -> None:
        """Set the response, or the ApiError that refuses the call."""
        if self.settled:
            return
        self.settled = True
        if isinstance(response, ApiError):
            self._error = response
        else:
            self._response = response
        if self._event is not None:
            self._event.set()

    def result(self) -> Any:
        """Return the response of a settled call. ApiError: the call was refused."""
        assert self.settled
        if self._error is not None:
            raise self._error
        return self._response

    async def wait_settled(self) -> None:
        """Wait until the call is settled."""
        if not self.settled:
            self._event = self._event or trio.Event()
            await self._event.wait()

    async def wait(self) -> Any:
        """Wait until the call is settled, and return its `result`."""
        await self.wait_settled()
        return self.result()

    def answer(self) -> Response | Coroutine[Any, Any, Response]:
        """Return the result, or a coroutine that waits for it."""
        return when_settled([self], self.result)


def when_settled(calls: Iterable[Call], answer: Callable[[], R]) -> R | Coroutine[Any, Any, R]:
    """Return `answer()`, or a coroutine that first waits until all calls are settled."""
    unsettled = [call for call in calls if not call.settled]
    return _later(unsettled, answer) if unsettled else answer()


async def _later(calls: list[Call], answer: Callable[[], R]) -> R:
    for call in calls:
        await call.wait_settled()
    return answer()


def refused(error: ApiError) -> Call:
    """Return a call that is refused without asking a machine."""
    call = Call()
    call.settle(error)
    return call


def not_coordinator() -> ApiError:
    """Return the error for callers of a machine that was unloaded: they look for the coordinator again."""
    return ApiError(ErrorCode.NOT_COORDINATOR)
