"""The replies of one connection that cannot leave yet, in request order."""

from __future__ import annotations

from typing import Any

from pykbroker.server.handler import NO_RESPONSE, RequestContext
from pykbroker.server.table import Route
from pykbroker.world.disk import FileSlice
from wire.declare import Response

SLOTS_MAX = 128
"""Requests of one connection that are not answered yet; further ones stay unread."""


class Slot:
    """A reply in line, with all that is needed to write it. `done`: it is written, into `parts`, which may be empty.

    `kept_bytes`: what it takes in memory, before that the request, then the reply.
    """

    __slots__ = (
        "answered_at",
        "began_at",
        "context",
        "correlation_id",
        "done",
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
        self.done = False

    def answer(self, response: Response, now: int) -> None:
        """From now on only the replies before it hold it up."""
        self.answered_at = now
        if response is not NO_RESPONSE:
            self.route.frame(self.correlation_id, response, self.parts)
        self.kept_bytes = sum(len(part) for part in self.parts if not isinstance(part, FileSlice))
        self.request, self.done = None, True


def drain(slots: list[Slot], out: list[Any], now: int) -> None:
    """Give out the replies that nothing holds up any more."""
    while slots and slots[0].done:
        slot = slots.pop(0)
        out += slot.parts
        slot.route.answer_queue_ns += now - slot.answered_at


def hurry(slots: list[Slot]) -> None:
    """Let those answer with what there is that can."""
    for slot in slots:
        if slot.context.hurry is not None:
            slot.context.hurry()
