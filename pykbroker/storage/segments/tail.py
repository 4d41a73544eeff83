"""The newest batches of a log, in memory: their offsets and positions, and the bytes of small batches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from pykbroker.world.disk import Buffer

BATCHES_REMEMBERED = 512
"""The least number of batches that are kept. At twice as many, the older half is dropped."""
KEEP_BYTES_MAX = 16384
"""The size of the largest batch whose bytes are kept. The bytes of larger batches are in the page cache only."""
BYTES_KEPT_MAX = 256 << 10
"""The maximum number of bytes kept per log. When a batch would exceed it, the older half of the bytes is dropped."""
JOIN_BYTES_MAX = 65536
"""The size of the largest read that is copied. A larger one is a slice of the file, which is sent without a copy."""
NOWHERE = 2**63 - 1


class Tail:
    """The newest batches of the active segment.

    `first_offset` is the offset of the oldest batch, or NOWHERE without a batch.
    """

    __slots__ = ("_chunks", "_full_at", "_kept_from", "_offsets", "_positions", "first_offset")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop all batches, after the segment was sealed or truncated."""
        self.first_offset = NOWHERE
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._chunks: list[bytes | None] = []
        self._keep_from(0)

    def add(self, base_offset: int, position: int, chunk: bytes | None) -> None:
        """Add a batch that was appended. `chunk` is its bytes, or None if they stay in the file only."""
        offsets = self._offsets
        if not offsets:
            self.first_offset = base_offset
            self._keep_from(position)
        offsets.append(base_offset)
        self._positions.append(position)
        self._chunks.append(chunk)
        if position > self._full_at:
            self._let_go(position - BYTES_KEPT_MAX // 2)
        if len(offsets) > 2 * BATCHES_REMEMBERED:
            del offsets[:BATCHES_REMEMBERED]
            del self._positions[:BATCHES_REMEMBERED]
            del self._chunks[:BATCHES_REMEMBERED]
            self.first_offset = offsets[0]

    def _let_go(self, position: int) -> None:
        """Drop the bytes of the batches before `position`."""
        first, after = bisect_left(self._positions, self._kept_from), bisect_left(self._positions, position)
        self._chunks[first:after] = [None] * (after - first)
        self._keep_from(position)

    def _keep_from(self, position: int) -> None:
        """Set the position before which the bytes of batches are not kept."""
        self._kept_from, self._full_at = position, position + BYTES_KEPT_MAX - KEEP_BYTES_MAX

    def find(
        self, offset: int, bytes_max: int, upper_offset: int, end_offset: int, end_position: int, at_least_one: bool
    ) -> tuple[int, int, Buffer | None]:
        """Return (position, size, bytes or None) of the whole batches from the batch that holds `offset` on.

        All these batches end below `upper_offset`. `offset` is at least `first_offset`. `end_offset` and `end_position`
        are the end of the log.
        """
        offsets, positions = self._offsets, self._positions
        first = bisect_right(offsets, offset) - 1
        after = len(offsets) if upper_offset >= end_offset else bisect_right(offsets, upper_offset) - 1
        start = positions[first]
        size = (end_position if after == len(offsets) else positions[after]) - start
        if size > bytes_max and after > first:
            after = bisect_right(positions, start + bytes_max, first, after) - 1
            if after == first and at_least_one:
                after = first + 1
            size = (end_position if after == len(offsets) else positions[after]) - start
        if after <= first:
            return start, 0, b""
        if after == first + 1:
            return start, size, self._chunks[first]
        if size > JOIN_BYTES_MAX:
            return start, size, None
        chunks = self._chunks[first:after]
        return start, size, None if None in chunks else b"".join(chunks)  # type: ignore[arg-type]

    def bytes_from(self, offset: int, upper_offset: int, end_offset: int, end_position: int) -> int:
        """Return the size of the whole batches below `upper_offset`, from the batch that holds `offset` on."""
        offsets = self._offsets
        first = bisect_right(offsets, offset) - 1
        if upper_offset >= end_offset:
            return end_position - self._positions[first]
        return self._positions[bisect_right(offsets, upper_offset) - 1] - self._positions[first]
