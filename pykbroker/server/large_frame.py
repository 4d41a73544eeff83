"""A frame too large for one recv, on its way in."""

from __future__ import annotations

from pykbroker.server.frame_pool import FramePool

LARGE_FRAME_BYTES = 32768
"""A frame gets a buffer of its own once more than this has come of it: who only claims a length costs nothing."""
TRUST, TRUST_TIGHT = 16, 2
"""The first buffer holds so many times what has come, which is the whole of most frames; less when memory is scarce."""
GROWTH_BYTES = 1 << 20


class LargeFrame:
    """Its buffer grows with what comes, never with the claim. `size`: of the frame; `have`: bytes of it so far."""

    __slots__ = ("_grown", "_pool", "buffer", "have", "size")

    def __init__(self, size: int, start: bytes, pool: FramePool, trust: int) -> None:
        self._pool, self.size, self.have = pool, size, len(start)
        self.buffer = pool.take(min(size, trust * len(start)))
        self.buffer[: len(start)] = start
        self._grown = False

    @property
    def is_complete(self) -> bool:
        """All of it is there."""
        return self.have == self.size

    @property
    def is_full(self) -> bool:
        """The buffer has to grow before more can come."""
        return self.have == len(self.buffer)

    def room(self) -> memoryview:
        """Where the next bytes go; to be released before the buffer grows."""
        return memoryview(self.buffer)[self.have : self.size]

    def grow(self) -> None:
        """By steps of one size: the kernel moves pages to extend a large block, nothing is copied, no step is long."""
        self.buffer += bytes(min(GROWTH_BYTES, self.size - len(self.buffer)))
        self._grown = True

    def give_back(self) -> None:
        """The request was handled: let its buffer be used again, if nobody looks at it."""
        if not self._grown:
            self._pool.give(self.buffer)
