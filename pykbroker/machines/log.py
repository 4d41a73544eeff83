"""The log of a machine, as its shell needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from pykbroker.core.log.verification import Verification
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import Steps

Rec = TypeVar("Rec")
T = TypeVar("T")
BetweenRequests = Callable[[Callable[[], T]], Awaitable[T]]
"""Runs a function between two requests, and returns its result."""


class LogLost(Exception):
    """The error of a log whose contents are unknown, or that another broker writes now."""


class MachineLog(Protocol[Rec]):
    """A log with one writer. Batches are of a type that only the log knows."""

    def require_open(self) -> None:
        """Check that this broker writes the log. ApiError: it does not, or not any more."""

    def frame(self, records: Sequence[Rec], wall_ms: int, *, split: bool) -> Steps[Sequence[tuple[Any, Sequence[Rec]]]]:
        """Return the records as batches, each with its records. `split`: batches may be as small as the log likes.

        ApiError: the records are too many or too large; nothing has changed.
        """

    def append(self, batch: Any, wall_ms: int, verification: Verification | None, *, is_first: bool) -> int:
        """Append a batch and return the offset after it; `is_first` of one outcome.

        ApiError: the log refuses the batch, and nothing has changed. LogLost: the log may hold parts of the outcome.
        """

    def entries(self, records: Sequence[Rec], end_offset: int) -> Iterable[Entry[Any]]:
        """Return the appended records of a batch that ends at `end_offset`, as the machine replays them."""

    def is_committed(self, offset: int) -> bool:
        """Whether everything below `offset` is committed."""

    async def commit(self, offset: int, replayed: int, between: BetweenRequests[Any]) -> int:
        """Wait until everything below `offset` is committed; return the offset below which all is, at most `replayed`.

        LogLost: it will never be.
        """
