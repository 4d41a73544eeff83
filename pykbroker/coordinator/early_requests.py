"""The requests to a coordinator that is still loading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from pykbroker.core.errors import ApiError
from pykbroker.machines.call import Call
from wire.declare import Response
from wire.error_codes import ErrorCode


class EarlyRequests:
    """Requests that are kept in the order of their arrival until `pass_on` or `refuse`, each for at most `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: dict[Call, Any] = {}

    def keep(self, request: Any) -> Call:
        """Keep a request. `response` waits for its response."""
        early = Call()
        self._kept[early] = request
        return early

    async def response(self, early: Call) -> Response:
        """Return the response to a request that `keep` returned.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS if it was kept for too long.
        """
        try:
            with trio.move_on_after(self._seconds):
                await early.wait_settled()
        finally:
            self._kept.pop(early, None)
        if not early.settled:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        passed: Call = early.result()
        response: Response = await passed.wait()
        return response

    def pass_on(self, ask: Callable[[Any], Call]) -> None:
        """Pass all requests to the coordinator, which is loaded now."""
        kept, self._kept = self._kept, {}
        for early, request in kept.items():
            try:
                early.settle(ask(request))
            except ApiError as error:
                early.fail(error)

    def refuse(self, error: ApiError) -> None:
        kept, self._kept = self._kept, {}
        for early in kept:
            early.fail(error)
