"""A reader of the batch headers of a file, which buffers a small range of the file and never waits for the disk."""

from __future__ import annotations

from struct import Struct, error

from pykbroker.world.disk import Buffer, File
from wire.records.batch import CONTROL, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL

WINDOW_BYTES = 8192
FACTS = Struct(">qi4xb4xhi8xq")
"""The fields base offset, batch length, magic, attributes, last offset delta and max timestamp."""


class BadHeader(Exception):
    """An error for a position at which no valid batch header begins."""


class Headers:
    """The batch headers of one file.

    Positions and sizes are in bytes. Methods raise NotCached if a header must be read from the disk.
    """

    __slots__ = ("_attributes", "_data", "_end", "_file", "_start", "max_timestamp")

    def __init__(self, file: File, end: int) -> None:
        self._file, self._end = file, end
        self._start = self._attributes = 0
        self._data: Buffer = b""
        self.max_timestamp = -1
        """The largest timestamp of the batch that `at` returned last."""

    @classmethod
    def of(cls, data: Buffer) -> Headers:
        """Return the headers of the batches in `data`. Positions count from the start of `data`."""
        headers = cls.__new__(cls)
        headers._data, headers._start, headers._end = data, 0, len(data)
        return headers

    def at(self, position: int) -> tuple[int, int, int]:
        """Return (base offset, size, last offset) of the batch that begins at `position`.

        Raise BadHeader if no batch begins there.
        """
        inside = position - self._start
        if inside < 0 or inside + HEADER_BYTES > len(self._data):
            self._data = self._file.read_nowait(position, min(WINDOW_BYTES, self._end - position))
            self._start, inside = position, 0
        try:
            base, length, magic, self._attributes, delta, self.max_timestamp = FACTS.unpack_from(self._data, inside)
        except error:
            raise BadHeader(f"{len(self._data)} bytes at {position}") from None
        if magic != MAGIC or length < HEADER_BYTES - LENGTH_OVERHEAD or delta < 0:
            raise BadHeader(f"magic {magic}, length {length}, last offset delta {delta} at byte {position}")
        return base, length + LENGTH_OVERHEAD, base + delta

    @property
    def is_transactional_data(self) -> bool:
        """Whether the batch that `at` returned last holds records of a transaction."""
        return self._attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL

    def position_of(self, offset: int, position: int) -> int:
        """Return the position of the first batch, from `position` on, that ends at or above `offset`.

        Return the end of the file without such a batch.
        """
        while position < self._end:
            _, size, last_offset = self.at(position)
            if last_offset >= offset:
                return position
            position += size
        return self._end

    def position_since(self, timestamp: int, position: int) -> int:
        """Return the position of the first batch, from `position` on, with `timestamp` or a later one.

        Return the end of the file without such a batch.
        """
        while position < self._end:
            _, size, _ = self.at(position)
            if self.max_timestamp >= timestamp:
                return position
            position += size
        return self._end

    def boundary_before(self, limit: int, position: int) -> int:
        """Return the end of the last batch that ends at or before position `limit`.

        The batch boundary `position` is the start of the search.
        """
        while position < self._end:
            following = position + self.at(position)[1]
            if following > limit:
                break
            position = following
        return position
