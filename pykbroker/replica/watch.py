"""A wait for a change of any of several partitions, such as a higher high watermark or a lost leadership."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from pykbroker.replica.partition import Partition


class Watch:
    """A waiting request. It is registered with its partitions until `close`, so that it misses no change."""

    __slots__ = ("_event", "_partitions", "hurried")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._partitions = tuple(partitions)
        self._event = trio.Event()
        self.hurried = False
        for partition in self._partitions:
            partition.watches.add(self)

    def wake(self) -> None:
        """Wake the waiting request: a partition has changed."""
        self._event.set()

    def hurry(self) -> None:
        """Make the waiting request respond with the records that are available now."""
        self.hurried = True
        self._event.set()

    async def wait(self) -> None:
        """Wait for the first `wake` since the previous `wait` returned. After `hurry`, return at once."""
        await self._event.wait()
        if not self.hurried:
            self._event = trio.Event()

    def close(self) -> None:
        """Remove this watch from its partitions."""
        for partition in self._partitions:
            partition.watches.discard(self)
