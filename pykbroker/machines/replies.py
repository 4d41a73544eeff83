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

    A caller whose records are not committed in time gets the error `late` instead. The records stay in the log, and may
    be committed later. `commit_s_max` is the default of the time.
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
        self._due, self._sooner = trio.Event(), trio.Event()
        self._expires_at = inf

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, call: Call, response: Any, replayed: int, commit_s_max: float | None = None) -> None:
        """Deliver the reply once all records below `replayed` are committed, at once if they already are."""
        call.offset = replayed
        # A reply never overtakes an earlier one, even if its own records are committed.
        if self._queue or not self._log.is_committed(replayed):
            expires_at = trio.current_time() + (self._commit_s_max if commit_s_max is None else commit_s_max)
            self._queue.append((call, response, expires_at))
            self._due.set()
            if expires_at < self._expires_at:
                self._expires_at = expires_at
                self._sooner.set()
        else:
            self._settle(call, response)

    def clear(self) -> None:
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
        while True:
            with trio.move_on_at(self._expires_at):
                await self._sooner.wait()
                self._sooner = trio.Event()
                continue
            now, self._expires_at = trio.current_time(), inf
            for call, _, expires_at in list(self._queue):
                if call.settled:
                    continue
                if expires_at <= now:
                    self._settle(call, ApiError(self._late))
                else:
                    self._expires_at = min(self._expires_at, expires_at)
