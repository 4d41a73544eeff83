"""The interface of every state machine in `core`: requests and times are its input, records and replies its output.

1. `handle` and `tick` may change soft state, which a restart loses, but only in ways that are correct even if the
   records are never committed.
2. Only `replay` changes hard state, and recovery uses the same `replay`.
3. A reply, even one without records, is delivered once all records that were replayed before it are committed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from pykbroker.core.now import Now
from pykbroker.core.steps import Steps

Rec = TypeVar("Rec")
Stored = TypeVar("Stored")
Rsp = TypeVar("Rsp")
Req_contra = TypeVar("Req_contra", contravariant=True)

Token = Hashable
"""An object that identifies a waiting caller. It equals only itself, and gets exactly one reply."""


class Outcome(msgspec.Struct, Generic[Rec, Rsp], frozen=True):
    """The result of a decision: records to append, then replay and commit, and replies to deliver after the commit.

    If the records are not committed within `commit_ms_max`, the callers are refused. None stands for the default of the
    shell.
    """

    records: tuple[Rec, ...] = ()
    replies: tuple[tuple[Token, Rsp], ...] = ()
    commit_ms_max: float | None = None


class Entry(msgspec.Struct, Generic[Rec], frozen=True):
    """A record with its offset in the log. The producer id is -1 if the record is not part of a transaction."""

    offset: int
    value: Rec
    producer_id: int = -1
    producer_epoch: int = -1


class Machine(Protocol[Req_contra, Rec, Stored, Rsp]):
    """A state machine. It returns records of type `Rec`, and replays `Stored`: single records, or runs of records.

    The caller finishes one call before the next, and replays nothing in between. It appends an outcome that has replies
    as a whole or not at all. An outcome without replies may be spread over several batches.
    """

    @property
    def deadline_ms(self) -> float:
        """Return the time on the monotonic clock at which `tick` must be called, or inf."""

    def loaded(self, now: Now) -> Outcome[Rec, Rsp]:
        """Start the timers after the whole log has been replayed and this broker has become the leader."""

    def handle(self, request: Req_contra, token: Token, now: Now) -> Outcome[Rec, Rsp] | Steps[Outcome[Rec, Rsp]]:
        """Decide a request, at once or in steps. Raise ApiError to refuse the whole request without a change."""

    def tick(self, now: Now) -> Outcome[Rec, Rsp]:
        """Handle some of the deadlines that have passed. `deadline_ms` stays in the past while others remain."""

    def replay(self, entry: Entry[Stored]) -> None:
        """Apply a record of the log, or a run of records, to the state."""
