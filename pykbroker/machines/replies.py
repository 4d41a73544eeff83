"""Replies that wait until the records that were replayed before them are committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

import trio

from pykbroker.core.errors import ApiError
from pykbroker.machines.call import Call
from pykbroker.machines.log import BetweenRequests, MachineLog
from wire.error_codes import ErrorCode


class Replies:
    """A queue of replies, in the order of the offsets that they depend on. `settle` delivers a reply.

    A caller whose records are not committed within `commit_s_max` gets the error `late` instead. The records stay in
    the log, and may be committed later.
    """

    def __init__(
        self,
        log: MachineLog[Any],
        settle: Callable[[Call, Any], None],
        commit_s_max: float = inf,
        late: ErrorCode = ErrorCode.REQUEST_TIMED_OUT,
    ) -> None:
        self._log, self._settle, self._commit_s_max, self._late = log, settle, commit_s_max, late
        self._queue: deque[tuple[Call, Any, float]] = deque()
        self._due, self._queued = trio.Event(), trio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, call: Call, response: Any, replayed: int) -> None:
        """Deliver the reply once all records below `replayed` are committed, at once if they already are."""
        call.offset = replayed
        if self._queue or not self._log.is_committed(replayed):
            self._queue.append((call, response, trio.current_time()))
            self._due.set()
            self._queued.set()
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
                    call, response, _ = self._queue.popleft()
                    self._settle(call, response)

    async def expire(self) -> None:
        """Refuse the callers whose records are not committed in time, until cancelled."""
        while self._commit_s_max < inf:
            await self._queued.wait()
            self._queued = trio.Event()
            refused_until = -inf
            while pending := [queued for _, _, queued in self._queue if queued > refused_until]:
                await trio.sleep_until(pending[0] + self._commit_s_max)
                refused_until = trio.current_time() - self._commit_s_max
                for call, _, queued in list(self._queue):
                    if queued > refused_until:
                        break
                    self._settle(call, ApiError(self._late))
