"""The execution of the work of a `Later`: generators run in time slices of the event loop, coroutines as tasks."""

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
    """Run the first time slice of a generator, and return the response or the remaining work.

    A coroutine is not started.
    """
    if type(later.work) is not GeneratorType:
        return later
    steps = resolve(later)
    result = turns.begin(steps)
    if result is Unfinished.UNFINISHED:
        return Later(turns.walk(steps), holds_connection=True)
    return result


async def response_of(later: Later, turns: Turns, go_over: Callable[[Later], None]) -> Response:
    """Run the work, and any further work that it returns, until there is a response.

    `go_over` is called with each `Later` before its work, so that the caller can note whether the work blocks the
    connection.
    """
    answer: Answer = later
    while isinstance(answer, Later):
        go_over(answer)
        if isinstance(answer.work, Generator):
            answer = await turns.through(resolve(answer))
        else:
            answer = await answer.work
    return answer


async def read_on(slot: Slot, steps: Steps[Any], turns: Turns) -> Answer:
    """Run `steps`, which decode the rest of a large request, then call its handler."""
    slot.request = await turns.walk(steps)
    return slot.route.handler.handle_large(slot.context, slot.request)
