"""The history of a simulation: the actions of clients, and their responses in the order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from wire.sentinels import NO_OFFSET

CONTROL = b""
"""The value that stands for a transaction marker."""
Place = tuple[str, int]
"""A topic name and a partition index."""


class SendOutcome(Enum):
    """The outcome of a send. UNKNOWN means that the batch may or may not have been written."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Send(msgspec.Struct):
    """A batch of one producer. Values are unique in their partition. `base_offset` is the offset of the first value."""

    producer: str
    place: Place
    values: tuple[bytes, ...]
    outcome: SendOutcome = SendOutcome.UNKNOWN
    base_offset: int = NO_OFFSET


class PollResult(msgspec.Struct):
    """The records that a consumer has read from an offset up to `next_offset`. Times are in seconds.

    If `committed` is true, records of aborted transactions are left out. Otherwise CONTROL stands for a control record.
    """

    consumer: str
    place: Place
    offset: int
    found: list[tuple[int, bytes]]
    high_watermark: int
    began_s: float
    ended_s: float
    committed: bool = False
    next_offset: int = NO_OFFSET


class Lapse(msgspec.Struct, frozen=True):
    """A consumer's fetch at an offset that was out of range, and the first offset of the partition afterwards."""

    consumer: str
    place: Place
    offset: int
    first_offset: int


class History:
    """The history of one simulation. `unexpected` has a description of each response that no client should ever get.

    An operator may have had the records below the offsets in `deleted` deleted, which other tasks raise.
    """

    def __init__(self, unexpected: list[str] | None = None, deleted: Mapping[Place, int] | None = None) -> None:
        self.sends: list[Send] = []
        self.polls: list[PollResult] = []
        self.lapses: list[Lapse] = []
        self.deleted: Mapping[Place, int] = {} if deleted is None else deleted
        self.unexpected = [] if unexpected is None else unexpected
        self._values: dict[bytes, bytes] = {}

    def shared(self, value: bytes) -> bytes:
        """Return an equal value, so that equal values are in memory only once."""
        return self._values.setdefault(value, value)

    def acknowledged(self) -> int:
        """Return the number of acknowledged values."""
        return sum(len(send.values) for send in self.sends if send.outcome is SendOutcome.ACKNOWLEDGED)
