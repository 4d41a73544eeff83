"""The buffer of one frame that is too large for one recv."""

from __future__ import annotations

from pykbroker.server.frame_pool import FramePool

LARGE_FRAME_BYTES = 32768
"""A frame gets its own buffer once more than so many bytes have come: a peer that only claims a size costs nothing."""
TRUST, TRUST_TIGHT = 16, 2
"""The first buffer holds so many times the bytes that have come: enough for most frames, less if memory is scarce."""
GROWTH_BYTES = 1 << 20


class LargeFrame:
    """A buffer that grows with the bytes that come, never with the claimed `size`. `have`: the bytes that have come."""

    __slots__ = ("_grown", "_pool", "buffer", "have", "size")

    def __init__(self, size: int, start: bytes, pool: FramePool, trust: int) -> None:
        self._pool, self.size, self.have = pool, size, len(start)
        self.buffer = pool.take(min(size, trust * len(start)))
        self.buffer[: len(start)] = start
        self._grown = False

    @property
    def is_complete(self) -> bool:
        """Whether all bytes have come."""
        return self.have == self.size

    @property
    def is_full(self) -> bool:
        """Whether the buffer must grow before more bytes can come."""
        return self.have == len(self.buffer)

    def room(self) -> memoryview:
        """Return a view of the place for the next bytes. It must be released before the buffer grows."""
        return memoryview(self.buffer)[self.have : self.size]

    def grow(self) -> None:
        """Grow the buffer by one step, which is short: the kernel extends a large block by moving pages."""
        self.buffer += bytes(min(GROWTH_BYTES, self.size - len(self.buffer)))
        self._grown = True

    def give_back(self) -> None:
        """Return the buffer to the pool once the request is handled, unless it has grown."""
        if not self._grown:
            self._pool.give(self.buffer)
