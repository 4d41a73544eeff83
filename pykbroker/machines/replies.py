"""Replies that wait until the records that were replayed before them are committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from pykbroker.machines.call import Call
from pykbroker.machines.log import BetweenRequests, MachineLog


class Replies:
    """A queue of replies, in the order of the offsets that they depend on. `settle` delivers a reply."""

    def __init__(self, log: MachineLog[Any], settle: Callable[[Call, Any], None]) -> None:
        self._log, self._settle = log, settle
        self._queue: deque[tuple[Call, Any]] = deque()
        self._due = trio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, call: Call, response: Any, replayed: int) -> None:
        """Deliver the reply once all records below `replayed` are committed, at once if they already are."""
        call.offset = replayed
        if self._queue or not self._log.is_committed(replayed):
            self._queue.append((call, response))
            self._due.set()
        else:
            self._settle(call, response)

    def clear(self) -> None:
        """Drop all replies."""
        self._queue.clear()

    async def run(self, replayed: Callable[[], int], between: BetweenRequests[Any]) -> None:
        """Deliver replies as records are committed, until cancelled.

        Replies that wait for the same commit are delivered together.

        Raise LogLost if the log cannot commit.
        """
        while True:
            await self._due.wait()
            self._due = trio.Event()
            while self._queue:
                committed = await self._log.commit(self._queue[0][0].offset, replayed(), between)
                while self._queue and self._queue[0][0].offset <= committed:
                    self._settle(*self._queue.popleft())
