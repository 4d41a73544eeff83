"""The last batches of a log, remembered where almost every read goes: their offsets, positions and, if small, bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from pykbroker.world.disk import Buffer

BATCHES_REMEMBERED = 512
"""At least; twice as many before the older half is forgotten."""
KEEP_BYTES_MAX = 16384
"""Larger batches stay in the page cache alone."""
BYTES_KEPT_MAX = 256 << 10
"""Of each log; what would pass it leaves the newest half."""
JOIN_BYTES_MAX = 65536
NOWHERE = 2**63 - 1


class Tail:
    """The newest batches of the active segment. `first_offset` is where it begins, NOWHERE when it is empty."""

    __slots__ = ("_chunks", "_full_at", "_kept_from", "_offsets", "_positions", "first_offset")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all: the segment was sealed or cut."""
        self.first_offset = NOWHERE
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._chunks: list[bytes | None] = []
        self._keep_from(0)

    def add(self, base_offset: int, position: int, chunk: bytes | None) -> None:
        """A batch was appended; `chunk` is it, or None if only the file has it."""
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
        """Of the bytes of the batches before `position`."""
        first, after = bisect_left(self._positions, self._kept_from), bisect_left(self._positions, position)
        self._chunks[first:after] = [None] * (after - first)
        self._keep_from(position)

    def _keep_from(self, position: int) -> None:
        """No batch before `position` has its bytes here."""
        self._kept_from, self._full_at = position, position + BYTES_KEPT_MAX - KEEP_BYTES_MAX

    def find(
        self, offset: int, bytes_max: int, upper_offset: int, end_offset: int, end_position: int, at_least_one: bool
    ) -> tuple[int, int, Buffer | None]:
        """(position, size, bytes if remembered) of the whole batches from the one with `offset` on.

        They end below `upper_offset`; `end_offset` and `end_position` are the log's. `offset` is in the tail.
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
        """Bytes of the whole batches from the one with `offset`, which is in the tail, below `upper_offset`."""
        offsets = self._offsets
        first = bisect_right(offsets, offset) - 1
        if upper_offset >= end_offset:
            return end_position - self._positions[first]
        return self._positions[bisect_right(offsets, upper_offset) - 1] - self._positions[first]
