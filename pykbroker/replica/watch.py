"""Waiting for any of several partitions: one event, set when a high watermark or a leadership changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from pykbroker.replica.partition import Partition


class Watch:
    """Registered from construction on, so that nothing is missed before `wait`; `close` when done."""

    __slots__ = ("_event", "_partitions", "hurried")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._partitions = tuple(partitions)
        self._event = trio.Event()
        self.hurried = False
        for partition in self._partitions:
            partition.watches.add(self)

    def wake(self) -> None:
        """A partition changed."""
        self._event.set()

    def hurry(self) -> None:
        """Whoever waits should answer with what there is."""
        self.hurried = True
        self._event.set()

    async def wait(self) -> None:
        """Until the next `wake` since the last `wait` returned, or at once when hurried."""
        await self._event.wait()
        if not self.hurried:
            self._event = trio.Event()

    def close(self) -> None:
        """Nobody waits here any more."""
        for partition in self._partitions:
            partition.watches.discard(self)
