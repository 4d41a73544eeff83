"""The place of one reply in the reply queue of its connection."""

from __future__ import annotations

from typing import Any

from pykbroker.server.budget import Budget
from pykbroker.server.handler import NO_RESPONSE, RequestContext
from pykbroker.server.table import Route
from pykbroker.world.disk import FileSlice
from wire.declare import Response

SLOTS_MAX = 128
"""The maximum number of requests of one connection that wait for their responses. Further requests stay unread."""


class Slot:
    """A slot: the place of one reply. It holds the request until the response exists.

    Times are in ns of a monotonic clock. `done` is true once the reply is written to `parts`, which may stay empty.
    `holds` is true while the request blocks the connection, and `counts` while it also counts towards the limit on
    requests. `kept_bytes` is the memory of the request, and later of the reply.
    """

    __slots__ = (
        "answered_at",
        "began_at",
        "context",
        "correlation_id",
        "counts",
        "done",
        "holds",
        "kept_bytes",
        "parked_at",
        "parts",
        "request",
        "route",
    )

    def __init__(
        self, route: Route, correlation_id: int, context: RequestContext, request: Any, began_at: int, kept_bytes: int
    ) -> None:
        self.route, self.correlation_id, self.context, self.request = route, correlation_id, context, request
        self.began_at = self.parked_at = self.answered_at = began_at
        self.kept_bytes = kept_bytes
        self.parts: list[Any] = []
        self.done = self.holds = self.counts = False

    def count(self, budget: Budget, *, counts: bool) -> None:
        """Set whether the request counts towards the limit on requests."""
        if self.counts != counts:
            self.counts = counts
            if counts:
                budget.hold()
            else:
                budget.let_go()

    def answer(self, response: Response, now: int) -> None:
        """Write the reply. It is sent once all earlier replies have been sent."""
        self.answered_at = now
        if response is not NO_RESPONSE:
            self.route.frame(self.correlation_id, response, self.parts)
        self.kept_bytes = sum(len(part) for part in self.parts if not isinstance(part, FileSlice))
        # The reply may wait for earlier ones, and the request with its buffers need not.
        self.request, self.done = None, True
