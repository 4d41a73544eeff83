"""A pending request to a state machine. The machine uses it as the token of the caller; it later holds the response."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import trio

from pykbroker.core.errors import ApiError, again
from wire.declare import Response

R = TypeVar("R")


class Call:
    """A request that is settled once, with a response or an error.

    Most calls are settled before anybody waits for them, so the event is created by the first waiter. `offset` is the
    end of the log records that the response depends on.
    """

    __slots__ = ("_error", "_event", "_response", "offset", "settled")

    def __init__(self) -> None:
        self.settled = False
        self.offset = -1
        self._response: Any = None
        self._error: Exception | None = None
        self._event: trio.Event | None = None

    def settle(self, response: Any) -> None:
        """Set the response, or the ApiError that refuses the call. Do nothing if the call is already settled."""
        if isinstance(response, ApiError):
            self.fail(again(response))
        elif not self.settled:
            self._response = response
            self._end()

    def fail(self, error: Exception) -> None:
        """Set the error that `result` raises. Do nothing if the call is already settled."""
        if not self.settled:
            self._error = error
            self._end()

    def _end(self) -> None:
        self.settled = True
        if self._event is not None:
            self._event.set()

    def result(self) -> Any:
        """Return the response of a settled call, or raise its error."""
        assert self.settled
        if self._error is not None:
            raise again(self._error) if isinstance(self._error, ApiError) else self._error
        return self._response

    async def wait_settled(self) -> None:
        if not self.settled:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()

    async def wait(self) -> Any:
        """Wait until the call is settled, and return its `result`."""
        await self.wait_settled()
        return self.result()

    def answer(self) -> Response | Coroutine[Any, Any, Response]:
        """Return the result if the call is settled, otherwise a coroutine that waits for the result."""
        return self.result() if self.settled else self.wait()


def when_settled(calls: Iterable[Call], answer: Callable[[], R]) -> R | Coroutine[Any, Any, R]:
    """Return `answer()` if all calls are settled, otherwise a coroutine that waits for them and returns `answer()`."""
    unsettled = [call for call in calls if not call.settled]
    return _later(unsettled, answer) if unsettled else answer()


async def _later(calls: list[Call], answer: Callable[[], R]) -> R:
    for call in calls:
        await call.wait_settled()
    return answer()


def refused(error: ApiError) -> Call:
    """Return a call that is already settled with this error."""
    call = Call()
    call.settle(error)
    return call
