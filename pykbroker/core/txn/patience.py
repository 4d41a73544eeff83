"""Who waits until the markers of a transactional id's last transaction are written, each for so long and no longer."""

from __future__ import annotations

from pykbroker.core.outcome import Token
from pykbroker.core.timers import Timers

WAITING_MAX = 16
"""For one transactional id, which one producer uses at a time."""


class Patience:
    """Soft: a machine that is thrown away tells those who wait so."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Token, None]] = {}
        self._timers: Timers[tuple[str, Token]] = Timers()

    @property
    def deadline_ms(self) -> float:
        """When the first of them has waited long enough; in the past, when what it waits for has come."""
        return self._timers.deadline_ms

    def begin(self, transactional_id: str, token: Token, due_ms: float) -> bool:
        """Wait until then. False: too many do."""
        waiting = self._waiting.setdefault(transactional_id, {})
        if len(waiting) >= WAITING_MAX:
            return False
        waiting[token] = None
        self._timers.set((transactional_id, token), due_ms)
        return True

    def end(self, transactional_id: str) -> None:
        """What all of them wait for has come."""
        for token in self._waiting.get(transactional_id, ()):
            self._timers.set((transactional_id, token), 0)

    def pop_due(self, now_ms: float) -> Token | None:
        """One who need not wait any more."""
        due = self._timers.pop_due(now_ms)
        if due is None:
            return None
        transactional_id, token = due
        waiting = self._waiting[transactional_id]
        del waiting[token]
        if not waiting:
            del self._waiting[transactional_id]
        return token
