"""The actions of clients and the responses they got, in the order of the responses."""

from __future__ import annotations

from enum import Enum

import msgspec

UNKNOWN_OFFSET = -1
CONTROL = b""
"""A marker of a transaction, in the place of a value."""
Place = tuple[str, int]
"""A topic and a partition."""


class SendOutcome(Enum):
    """The outcome of a send. UNKNOWN: the batch may be written or not."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Send(msgspec.Struct):
    """One batch of one producer. Values are unique in their partition; `base_offset` is the first one's."""

    producer: str
    place: Place
    values: tuple[bytes, ...]
    outcome: SendOutcome = SendOutcome.UNKNOWN
    base_offset: int = UNKNOWN_OFFSET


class PollResult(msgspec.Struct):
    """The records that a consumer found from an offset up to `next_offset`. Times in seconds.

    With `committed`, records of aborted transactions are left out; otherwise CONTROL stands for a control record.
    """

    consumer: str
    place: Place
    offset: int
    found: list[tuple[int, bytes]]
    high_watermark: int
    began_s: float
    ended_s: float
    committed: bool = False
    next_offset: int = UNKNOWN_OFFSET


class History:
    """The history of one simulation. `oddities` are answers that no client should ever get."""

    def __init__(self, oddities: list[str] | None = None) -> None:
        self.sends: list[Send] = []
        self.polls: list[PollResult] = []
        self.oddities = [] if oddities is None else oddities
        self._values: dict[bytes, bytes] = {}

    def shared(self, value: bytes) -> bytes:
        """Return an equal value that is held in memory once."""
        return self._values.setdefault(value, value)

    def acknowledged(self) -> int:
        """Return the number of acknowledged values."""
        return sum(len(send.values) for send in self.sends if send.outcome is SendOutcome.ACKNOWLEDGED)
