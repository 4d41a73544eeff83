"""The result of one request or deadline while it is being decided."""

from __future__ import annotations

from typing import Any

from pykbroker.core.coordinator.record import LogRecord
from pykbroker.core.group.requests import Shows
from pykbroker.core.now import Now
from pykbroker.core.outcome import Outcome, Token


class Step:
    """The records and replies so far, in order.

    `now_ms` is the monotonic clock of deadlines, `wall_ms` the wall clock in records: the fields of `Now`. `shows` is
    that of a client's request.
    """

    __slots__ = ("now_ms", "records", "replies", "shows", "wall_ms")

    def __init__(self, now: Now, shows: Shows | None = None) -> None:
        self.now_ms, self.wall_ms = now
        self.shows = shows
        self.records: list[LogRecord] = []
        self.replies: list[tuple[Token, Any]] = []

    def write(self, record: LogRecord) -> None:
        self.records.append(record)

    def reply(self, token: Token, response: Any) -> None:
        """Send the response to the caller with this token once the records are committed."""
        self.replies.append((token, response))

    def outcome(self) -> Outcome[LogRecord, Any]:
        return Outcome(tuple(self.records), tuple(self.replies))
