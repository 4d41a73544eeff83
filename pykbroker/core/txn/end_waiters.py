"""Callers that wait, up to a deadline, until the markers of a transactional id's last transaction are written."""

from __future__ import annotations

from pykbroker.core.outcome import Token
from pykbroker.core.timers import Timers

WAITING_MAX = 16
"""Callers that may wait for one transactional id, which only one producer uses at a time."""


class EndWaiters:
    """The waiting callers by transactional id.

    Nothing here is stored: a machine that is thrown away refuses its callers.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Token, None]] = {}
        self._timers: Timers[tuple[str, Token]] = Timers()

    @property
    def deadline_ms(self) -> float:
        """Return when the first caller's wait ends; a time in the past if its transaction is complete."""
        return self._timers.deadline_ms

    def begin(self, transactional_id: str, token: Token, due_ms: float) -> bool:
        """Make the caller wait until `due_ms` at most.

        False: WAITING_MAX callers already wait for this transactional id.
        """
        waiting = self._waiting.setdefault(transactional_id, {})
        if len(waiting) >= WAITING_MAX:
            return False
        waiting[token] = None
        self._timers.set((transactional_id, token), due_ms)
        return True

    def end(self, transactional_id: str) -> None:
        """Make all callers of this transactional id due: the markers of its transaction are written."""
        for token in self._waiting.get(transactional_id, ()):
            self._timers.set((transactional_id, token), 0)

    def pop_due(self, now_ms: float) -> Token | None:
        """Remove and return one caller whose wait has ended, or None."""
        due = self._timers.pop_due(now_ms)
        if due is None:
            return None
        transactional_id, token = due
        waiting = self._waiting[transactional_id]
        del waiting[token]
        if not waiting:
            del self._waiting[transactional_id]
        return token
