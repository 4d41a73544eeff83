"""A wait for a change of any of several partitions, such as a higher high watermark or another role."""

from __future__ import annotations

from collections.abc import Iterable

import trio


class Watch:
    """A waiting request. It is in the `watches` of its partitions until `close`, so that it misses no change."""

    __slots__ = ("_event", "_places", "hurried")

    def __init__(self, places: Iterable[set[Watch]]) -> None:
        self._places = tuple(places)
        self._event = trio.Event()
        self.hurried = False
        for place in self._places:
            place.add(self)

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
        for place in self._places:
            place.discard(self)
