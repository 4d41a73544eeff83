"""A pool of buffers for large frames. It avoids page faults, which take hundreds of microseconds for a new MiB."""

from __future__ import annotations

POOLED_BYTES_MAX = 8 << 20
SIZE_MIN = 65536


class FramePool:
    """A pool of free buffers. Capacities are powers of two, and at most `POOLED_BYTES_MAX` bytes in total."""

    def __init__(self) -> None:
        self._spare: dict[int, list[bytearray]] = {}
        self._spare_bytes = 0

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes, with any content."""
        capacity = max(SIZE_MIN, 1 << (size - 1).bit_length())
        spare = self._spare.get(capacity)
        if spare:
            self._spare_bytes -= capacity
            return spare.pop()
        return bytearray(capacity)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back, unless a view on it exists or the pool is full."""
        capacity = len(buffer)
        if self._spare_bytes + capacity > POOLED_BYTES_MAX:
            return
        try:
            buffer.append(buffer.pop())  # a buffer with an exported memoryview cannot change its size
        except BufferError:
            return
        self._spare_bytes += capacity
        self._spare.setdefault(capacity, []).append(buffer)
