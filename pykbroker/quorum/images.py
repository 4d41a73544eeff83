"""Committed metadata images for one subscriber, which applies each image before it takes the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import trio

from pykbroker.core.metadata.image import Delta, MetadataImage


class Images:
    """The metadata images. The subscriber has applied `current`; `committed` is the newest committed image."""

    def __init__(self, first: Delta) -> None:
        self.current: MetadataImage = first.previous
        self.committed: MetadataImage = first.image
        self._pending: Delta | None = first
        self._changed = trio.Event()
        self._applied = trio.Event()

    def publish(self, delta: Delta) -> None:
        """Publish a committed delta. It is merged into the last delta if the subscriber has not taken that yet."""
        self.committed = delta.image
        self._pending = delta if self._pending is None else self._pending.then(delta)
        self._changed.set()

    def updates(self) -> AsyncIterator[Delta]:
        """Yield every delta, to one subscriber.

        The first delta leads from the empty image to the image at the start.
        """
        return _Updates(self)

    async def wait_for(self, offset: int) -> None:
        """Wait until the subscriber has applied an image that contains the record at `offset`."""
        while self.current.offset < offset:
            await self._applied.wait()

    async def wait_until(self, condition: Callable[[MetadataImage], bool]) -> None:
        """Wait until the subscriber has applied an image for which `condition` returns true."""
        while not condition(self.current):
            await self._applied.wait()

    async def take(self) -> Delta:
        """Wait for changes and return those since the last call."""
        while self._pending is None:
            await self._changed.wait()
        delta, self._pending, self._changed = self._pending, None, trio.Event()
        return delta

    def apply(self, image: MetadataImage) -> None:
        """Record that the subscriber has applied the image."""
        self.current = image
        self._applied.set()
        self._applied = trio.Event()


class _Updates:
    def __init__(self, images: Images) -> None:
        self._images = images
        self._taken: Delta | None = None

    def __aiter__(self) -> _Updates:
        return self

    async def __anext__(self) -> Delta:
        # A subscriber that asks for the next delta has applied the last one.
        if self._taken is not None:
            self._images.apply(self._taken.image)
        self._taken = await self._images.take()
        return self._taken
