"""The shape of every state machine in `core`: requests and times in, records and replies out.

1. `handle` and `tick` change soft state only in ways that are right whether or not the records commit.
2. `replay` alone changes hard state, and recovery uses the same `replay`.
3. A reply, also one without records, is delivered once all that was replayed before it is committed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

Rec = TypeVar("Rec")
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


class Machine(Protocol[Req_contra, Rec, Rsp]):
    """What a shell hosts. Times in ms of the shell's clock."""

    deadline_ms: float  # when `tick` has something to do; inf when idle

    def handle(self, request: Req_contra, token: Token, now_ms: float) -> Outcome[Rec, Rsp]:
        """Decide. `ApiError` refuses the whole request, and then nothing has changed."""

    def tick(self, now_ms: float) -> Outcome[Rec, Rsp]:
        """What the passing of time decides."""

    def replay(self, entry: Entry[Rec]) -> None:
        """Take a record of the log into the state."""
