"""Work at the controller that goes on after its callers have stopped waiting for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

import trio

from pykbroker.core.errors import ApiError
from pykbroker.machines.call import Call
from wire.error_codes import ErrorCode

T = TypeVar("T")

WAIT_S_MAX = 2
"""The time for which the request of a client waits for a controller, which may be away for longer than the client."""
ONGOING_MAX = 100
"""The number of works that may go on at a time."""


class OngoingWork:
    """Work in progress by a key: callers with the same key wait for the same work. `run` must run meanwhile."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, Call] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Run the work of all callers until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def begin(self, key: Hashable, work: Callable[[], Awaitable[Any]]) -> Call:
        """Begin the work with this key unless it is going on, and return the call that it settles.

        Raise ApiError REQUEST_TIMED_OUT if `ONGOING_MAX` works are going on.
        """
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) >= ONGOING_MAX:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{ONGOING_MAX} requests wait for the controller")
            assert self._nursery is not None
            call = self._calls[key] = Call()
            self._nursery.start_soon(self._do, key, work, call)
        return call

    async def result(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the work with this key, which begins now unless it is going on.

        Raise the error of `begin` or of the work, and ApiError REQUEST_TIMED_OUT after `WAIT_S_MAX`, while the work
        goes on.
        """
        call = self.begin(key, work)
        with trio.move_on_after(WAIT_S_MAX):
            return cast("T", await call.wait())
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not respond in time")

    async def _do(self, key: Hashable, work: Callable[[], Awaitable[Any]], call: Call) -> None:
        try:
            call.settle(await work())
        except Exception as error:  # noqa: BLE001 - the callers raise it
            call.fail(error)
        finally:
            del self._calls[key]
