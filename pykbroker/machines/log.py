"""The Protocol of a state machine's log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from pykbroker.core.log.verification import Verification
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import Steps

Rec = TypeVar("Rec")
T = TypeVar("T")
BetweenRequests = Callable[[Callable[[], T]], Awaitable[T]]
"""An async function that runs another function between two requests, and returns its result."""


class LogLost(Exception):
    """The error of a log whose contents are unknown, or that another broker now writes."""


class MachineLog(Protocol[Rec]):
    """A log with one writer, this broker. The shell does not look into its batches."""

    def require_open(self) -> None:
        """Raise ApiError unless this broker is still the writer of the log."""

    def frame(self, records: Sequence[Rec], wall_ms: int, *, split: bool) -> Steps[Sequence[tuple[Any, Sequence[Rec]]]]:
        """Return the records as batches, each paired with its records.

        With `split`, batches may be as small as the log likes.

        Raise ApiError if the records are too many or too large. The log is not changed in that case.
        """

    def append(self, batch: Any, wall_ms: int, verification: Verification | None, *, is_first: bool) -> int:
        """Append a batch and return the offset after it. `is_first` marks the first batch of one decision.

        Raise ApiError if the log refuses the batch and is unchanged. Raise LogLost if a part of the decision may be in
        the log.
        """

    def entries(self, records: Sequence[Rec], end_offset: int) -> Iterable[Entry[Any]]:
        """Return the records of an appended batch that ends at `end_offset`, each with its offset, for the replay."""

    def is_committed(self, offset: int) -> bool:
        """Whether all records below `offset` are committed."""

    async def commit(self, offset: int, replayed: int, between: BetweenRequests[Any]) -> int:
        """Wait until all records below `offset` are committed. Return the offset up to which the log is committed.

        The returned offset is at most `replayed`. Raise LogLost if the records can never be committed.
        """
