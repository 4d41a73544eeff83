"""Committed metadata for one subscriber, which applies each image before it asks for the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from pykbroker.core.metadata.image import Delta, MetadataImage


class Images:
    """`current` is what the subscriber has applied, `committed` the newest there is."""

    def __init__(self, first: Delta) -> None:
        self.current: MetadataImage = first.previous
        self.committed: MetadataImage = first.image
        self._pending: Delta | None = first
        self._changed = trio.Event()
        self._applied = trio.Event()

    def publish(self, delta: Delta) -> None:
        """Publish a commit. It is merged with a delta that the subscriber has not taken yet."""
        self.committed = delta.image
        self._pending = delta if self._pending is None else self._pending.then(delta)
        self._changed.set()

    def updates(self) -> AsyncIterator[Delta]:
        """Yield every delta, to one subscriber. The first delta leads from the empty image to that of the start."""
        return _Updates(self)

    async def wait_for(self, offset: int) -> None:
        """Wait until an image that contains `offset` has been applied."""
        while self.current.offset < offset:
            await self._applied.wait()

    async def take(self) -> Delta:
        """Return the changes since the last call, waiting until there are some."""
        while self._pending is None:
            await self._changed.wait()
        delta, self._pending, self._changed = self._pending, None, trio.Event()
        return delta

    def apply(self, image: MetadataImage) -> None:
        """Record that the subscriber has applied the whole image."""
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
        if self._taken is not None:
            self._images.apply(self._taken.image)
        self._taken = await self._images.take()
        return self._taken
