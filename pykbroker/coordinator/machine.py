"""What the shell hosts: a pure machine, as `core.outcome` has it, that also stamps records with the time of day."""

from __future__ import annotations

from typing import Any, Protocol

from pykbroker.core.coordinator.record import LogRecord, StoredRecord
from pykbroker.core.outcome import Entry, Outcome, Token
from pykbroker.core.steps import Steps

CoordinatorOutcome = Outcome[LogRecord, Any]


class CoordinatorMachine(Protocol):
    """One partition's state. `now_ms` never jumps and is for deadlines; `wall_ms` since 1970 is for what is stored.

    One call after the other: `replay` is not called either before the last step of one that is made in steps.
    An outcome with replies is appended as a whole or not at all; one without may be spread over several batches.
    """

    @property
    def deadline_ms(self) -> float:
        """When `tick` has something to do; inf when idle."""

    def loaded(self, now_ms: float, wall_ms: int) -> CoordinatorOutcome:
        """All of the log was replayed, and this broker leads: timers start."""

    def handle(
        self, request: Any, token: Token, now_ms: float, wall_ms: int
    ) -> CoordinatorOutcome | Steps[CoordinatorOutcome]:
        """Decide, at once or in steps. `ApiError` refuses the whole request, and then nothing has changed."""

    def tick(self, now_ms: float, wall_ms: int) -> CoordinatorOutcome:
        """What the passing of time decides; a bounded part of it, if `deadline_ms` is still past then."""

    def replay(self, entry: Entry[StoredRecord]) -> None:
        """Take a record of the log, or a run of them, into the state."""
