"""Requests that wait, up to a deadline, until the markers of a transactional id's last transaction are written."""

from __future__ import annotations

from pykbroker.core.outcome import Token
from pykbroker.core.timers import Timers

WAITING_MAX = 16
"""The number of requests that may wait for one transactional id, which only one producer uses at a time."""


class EndWaiters:
    """The waiting requests by transactional id. They are not stored: a coordinator that is discarded refuses them."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Token, None]] = {}
        self._timers: Timers[tuple[str, Token]] = Timers()

    @property
    def deadline_ms(self) -> float:
        """Return when the first request's wait ends. The time is in the past if its transaction is complete."""
        return self._timers.deadline_ms

    def begin(self, transactional_id: str, token: Token, due_ms: float) -> bool:
        """Make the request wait until `due_ms` at most.

        Return False if WAITING_MAX requests already wait for this transactional id.
        """
        waiting = self._waiting.setdefault(transactional_id, {})
        if len(waiting) >= WAITING_MAX:
            return False
        waiting[token] = None
        self._timers.set((transactional_id, token), due_ms)
        return True

    def end(self, transactional_id: str) -> None:
        """End the wait of all requests for this transactional id: the markers of its transaction are written."""
        for token in self._waiting.get(transactional_id, ()):
            self._timers.set((transactional_id, token), 0)

    def pop_due(self, now_ms: float) -> Token | None:
        """Remove and return one request whose wait has ended, or return None."""
        due = self._timers.pop_due(now_ms)
        if due is None:
            return None
        transactional_id, token = due
        waiting = self._waiting[transactional_id]
        del waiting[token]
        if not waiting:
            del self._waiting[transactional_id]
        return token
