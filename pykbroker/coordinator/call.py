"""One caller of a machine: the token that stands for it, and what it is told in the end."""

from __future__ import annotations

from typing import Any

import trio

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode


class Call:
    """Settled once, with a response or a refusal. Most are at once, so an event is made only for one who waits."""

    __slots__ = ("_error", "_event", "_response", "settled")

    def __init__(self) -> None:
        self.settled = False
        self._response: Any = None
        self._error: ApiError | None = None
        self._event: trio.Event | None = None

    def settle(self, response: Any) -> None:
        """This is the answer; an ApiError refuses."""
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
        """What the caller is told, once it is settled. ApiError: refused."""
        assert self.settled
        if self._error is not None:
            raise self._error
        return self._response

    async def wait(self) -> Any:
        """As `result`, once it is settled."""
        if not self.settled:
            self._event = trio.Event()
            await self._event.wait()
        return self.result()


def not_coordinator() -> ApiError:
    """What a caller is told whose machine is gone: ask who coordinates now."""
    return ApiError(ErrorCode.NOT_COORDINATOR)
