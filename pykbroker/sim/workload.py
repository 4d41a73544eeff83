"""The interface of workloads: a workload runs under faults, finishes its work after them, and is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from wire.messages.create_topics import CreatableTopic

PROGRESS_S_MAX = 30.0
"""The time after the last fault within which everything must be acknowledged and read."""


class Workload(Protocol):
    """A workload: the clients of one kind and their history. A finding is a sentence.

    `acknowledged` and `read` count values.
    """

    @property
    def clients(self) -> Sequence[str]:
        """Return the names of the clients' hosts."""

    @property
    def topics(self) -> Sequence[CreatableTopic]:
        """Return the topics to create before clients start."""

    def start(self, nursery: trio.Nursery) -> None:
        """Run the clients until the nursery is cancelled."""

    async def settle(self) -> list[str]:
        """Finish all work after the last fault. Return findings if it does not finish in time."""

    async def judge(self) -> list[str]:
        """Read all partitions once more, check the history and return findings."""

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged values."""

    @property
    def read(self) -> int:
        """Return the number of values that were read. A value counts each time that it was read."""
