"""What a scenario gives its clients to do: a workload works under faults, settles when it is calm, and is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from wire.messages.create_topics import CreatableTopic

PROGRESS_S_MAX = 30.0
"""After the last fault, all must be acknowledged and read within this time."""


class Workload(Protocol):
    """Clients and their history. A finding is a sentence; `acknowledged` and `read` count values."""

    @property
    def clients(self) -> Sequence[str]:
        """The names of its hosts."""

    @property
    def topics(self) -> Sequence[CreatableTopic]:
        """What is made before anybody works."""

    def start(self, nursery: trio.Nursery) -> None:
        """Work, until the nursery is cancelled."""

    async def settle(self) -> list[str]:
        """There are no more faults: bring all to an end, within the time that is allowed. Findings if it does not."""

    async def judge(self) -> list[str]:
        """Read all that there is a last time, and look at the history."""

    @property
    def acknowledged(self) -> int:
        """Values that were."""

    @property
    def read(self) -> int:
        """Values that were, each as often as it was."""
