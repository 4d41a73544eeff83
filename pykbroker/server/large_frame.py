"""The buffer of a frame that is too large for one recv."""

from __future__ import annotations

from pykbroker.server.frame_pool import FramePool

LARGE_FRAME_BYTES = 32768
"""The number of received bytes above which a frame gets a separate buffer.

A client that only claims a large size gets none.
"""
TRUST, TRUST_TIGHT = 16, 2
"""The size of the first buffer as a multiple of the received bytes, normally and when memory is scarce."""
GROWTH_BYTES = 1 << 20


class LargeFrame:
    """A buffer that grows with the received bytes, independent of the claimed `size`.

    `have` is the number of received bytes.
    """

    __slots__ = ("_grown", "_pool", "buffer", "have", "size")

    def __init__(self, size: int, start: bytes, pool: FramePool, trust: int) -> None:
        self._pool, self.size, self.have = pool, size, len(start)
        self.buffer = pool.take(min(size, trust * len(start)))
        self.buffer[: len(start)] = start
        self._grown = False

    @property
    def is_complete(self) -> bool:
        """Whether all bytes of the frame have been received."""
        return self.have == self.size

    @property
    def is_full(self) -> bool:
        """Whether the buffer must grow before more bytes can be received."""
        return self.have == len(self.buffer)

    def room(self) -> memoryview:
        """Return a view of the place for the next bytes. It must be released before the buffer grows."""
        return memoryview(self.buffer)[self.have : self.size]

    def grow(self) -> None:
        """Grow the buffer. This takes little time, since the kernel extends a large block by moving pages."""
        self.buffer += bytes(min(GROWTH_BYTES, self.size - len(self.buffer)))
        self._grown = True

    def give_back(self) -> None:
        """Return the buffer to the pool after the request is handled, unless the buffer has grown."""
        if not self._grown:
            self._pool.give(self.buffer)
