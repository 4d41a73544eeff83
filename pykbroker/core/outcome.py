"""The shape of every state machine in `core`: requests and times in, records and replies out.

1. `handle` and `tick` change soft state only in ways that are right whether or not the records commit.
2. `replay` alone changes hard state, and recovery uses the same `replay`.
3. A reply, also one without records, is delivered once all that was replayed before it is committed.
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
"""Stands for a waiting caller; equal to itself only, and answered exactly once."""


class Outcome(msgspec.Struct, Generic[Rec, Rsp], frozen=True):
    """All that a machine may say. The order: append the records, replay them, commit, deliver the replies."""

    records: tuple[Rec, ...] = ()
    replies: tuple[tuple[Token, Rsp], ...] = ()


class Entry(msgspec.Struct, Generic[Rec], frozen=True):
    """A record at its place in the log; -1 for the producer of one that is not part of a transaction."""

    offset: int
    value: Rec
    producer_id: int = -1
    producer_epoch: int = -1


class Machine(Protocol[Req_contra, Rec, Stored, Rsp]):
    """A machine, as its shell sees it. It writes `Rec`, and replays `Stored`: single records, or runs of them.

    The shell makes one call after the other, and replays nothing before the last step of a call in steps. It appends
    an outcome with replies as a whole or not at all, and may spread an outcome without replies over several batches.
    """

    @property
    def deadline_ms(self) -> float:
        """Return when `tick` has something to do, on the monotonic clock; inf when idle."""

    def loaded(self, now: Now) -> Outcome[Rec, Rsp]:
        """Start the timers: the whole log has been replayed, and this broker leads its partition."""

    def handle(self, request: Req_contra, token: Token, now: Now) -> Outcome[Rec, Rsp] | Steps[Outcome[Rec, Rsp]]:
        """Decide a request, at once or in steps. `ApiError` refuses the whole request, and then nothing has changed."""

    def tick(self, now: Now) -> Outcome[Rec, Rsp]:
        """Handle a bounded part of the deadlines that are due. `deadline_ms` stays past while others are due."""

    def replay(self, entry: Entry[Stored]) -> None:
        """Apply a record of the log, or a run of records, to the state."""
