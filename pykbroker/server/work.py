"""Runs the work of a `Later`: steps in shares of the loop, and coroutines to their end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, Later, resolve
from pykbroker.server.slot import Slot
from pykbroker.world.turns import Turns, Unfinished
from wire.declare import Response


def first_share(later: Later, turns: Turns) -> Answer:
    """Run the first share of steps at once, and return what is left to do. A coroutine is left to a task."""
    if type(later.work) is not GeneratorType:
        return later
    steps = resolve(later)
    result = turns.begin(steps)
    if result is Unfinished.UNFINISHED:
        return Later(turns.walk(steps), holds_connection=True)
    return result


async def response_of(later: Later, turns: Turns, let_go: Callable[[], None]) -> Response:
    """Run the work, and the work to which it leads, until there is a response.

    `let_go` is called before work that does not hold the connection.
    """
    answer: Answer = later
    while isinstance(answer, Later):
        if not answer.holds_connection:
            let_go()
        if isinstance(answer.work, Generator):
            answer = await turns.through(resolve(answer))
        else:
            answer = await answer.work
    return answer


async def read_on(slot: Slot, steps: Steps[Any], turns: Turns) -> Answer:
    """Decode the rest of a large request, and handle it."""
    slot.request = await turns.walk(steps)
    return slot.route.handler.handle_large(slot.context, slot.request)
