"""The controller as its clients see it, whether it runs in this broker or in another one."""

from __future__ import annotations

from typing import Protocol, TypeVar

from wire.declare import Request, Response

Rsp = TypeVar("Rsp", bound=Response)


class ActiveController(Protocol):
    """The active controller of the cluster."""

    async def ask(self, request: Request[Rsp], /) -> Rsp:
        """Return the response once the decision is committed and, for requests of clients, applied by this broker.

        ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
