"""Hopping from batch header to batch header in a file that is trusted, through a small window and without waiting."""

from __future__ import annotations

from struct import Struct

from pykbroker.world.disk import Buffer, File
from wire.records.batch import HEADER_BYTES, LENGTH_OVERHEAD

WINDOW_BYTES = 8192
OFFSETS = Struct(">qi11xi")
"""base offset, batch length, (leader epoch, magic, crc, attributes), last offset delta"""


class Headers:
    """The headers of one file. Positions and sizes in bytes. NotCached: the window must come from the disk."""

    __slots__ = ("_data", "_end", "_file", "_start")

    def __init__(self, file: File, end: int) -> None:
        self._file, self._end = file, end
        self._start = 0
        self._data: Buffer = b""

    def at(self, position: int) -> tuple[int, int, int]:
        """(base offset, size, last offset) of the batch that begins at `position`."""
        inside = position - self._start
        if inside < 0 or inside + HEADER_BYTES > len(self._data):
            self._data = self._file.read_nowait(position, min(WINDOW_BYTES, self._end - position))
            self._start, inside = position, 0
        base, length, delta = OFFSETS.unpack_from(self._data, inside)
        return base, length + LENGTH_OVERHEAD, base + delta

    def position_of(self, offset: int, position: int) -> int:
        """Where the first batch that ends at or above `offset` begins, looking from `position` on; else the end."""
        while position < self._end:
            _, size, last_offset = self.at(position)
            if last_offset >= offset:
                return position
            position += size
        return self._end

    def boundary_before(self, limit: int, position: int) -> int:
        """Where the last batch ends that ends at or before `limit`, looking from `position`, a batch's begin, on."""
        while position < self._end:
            following = position + self.at(position)[1]
            if following > limit:
                break
            position = following
        return position
