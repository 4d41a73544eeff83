"""One call or one due timer of the machine while it is being decided: records and replies, in the order they come."""

from __future__ import annotations

from typing import Any

from pykbroker.core.coordinator.record import LogRecord
from pykbroker.core.outcome import Outcome, Token


class Step:
    """`now_ms` is the clock of deadlines, `wall_ms` the time of day that is stored."""

    __slots__ = ("now_ms", "records", "replies", "wall_ms")

    def __init__(self, now_ms: float, wall_ms: int) -> None:
        self.now_ms, self.wall_ms = now_ms, wall_ms
        self.records: list[LogRecord] = []
        self.replies: list[tuple[Token, Any]] = []

    def write(self, record: LogRecord) -> None:
        """The log shall hold this."""
        self.records.append(record)

    def reply(self, token: Token, response: Any) -> None:
        """Whoever waits by this token shall get the response, once the records are committed."""
        self.replies.append((token, response))

    def outcome(self) -> Outcome[LogRecord, Any]:
        """All of it."""
        return Outcome(tuple(self.records), tuple(self.replies))
