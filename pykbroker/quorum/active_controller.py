"""The Protocol of the active controller, whether it runs in this broker or in another one."""

from __future__ import annotations

from typing import Protocol, TypeVar

from wire.declare import Request, Response

Rsp = TypeVar("Rsp", bound=Response)


class ActiveController(Protocol):
    """The active controller of the cluster."""

    async def ask(self, request: Request[Rsp], /) -> Rsp:
        """Return the response once the change is committed and, for requests of clients, applied by this broker.

        Raise ApiError NOT_CONTROLLER or REQUEST_TIMED_OUT if that fails.
        """
