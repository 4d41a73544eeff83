"""The offset and time index of one segment, in memory and as files.

The offset index has 8-byte entries (relative offset i32, position i32): the *last* offset of a batch, and the position
in the file where that batch begins. The time index has 12-byte entries (timestamp i64, relative offset i32): the
largest timestamp so far, and the last offset of the batch that contains it. Both values of an entry exceed the values
of the previous entry. Entries are big-endian, and most batches have none. Invalid content raises CorruptIndex, and the
index is rebuilt from the log. The files have no checksum. A time index that lacks its last entries is not detected if
the later timestamps of its segment are smaller. In memory a column is an array, so that 250,000 entries of a large
segment take 5 MB and load in a few ms.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
I32, I64 = "i", "q"


class CorruptIndex(ValueError):
    """An error for an index that contradicts itself or its log."""


class OffsetIndex:
    """The offset index, which maps an offset to the position at which to start reading.

    Offsets are absolute, positions in bytes.
    """

    __slots__ = ("_positions", "_relative", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._relative = array(I32)
        self._positions = array(I32)

    def __len__(self) -> int:
        return len(self._relative)

    def add(self, last_offset: int, position: int) -> None:
        """Add an entry for a batch that begins at `position` and ends with `last_offset`.

        Both values exceed those of every earlier entry.
        """
        self._relative.append(last_offset - self.base_offset)
        self._positions.append(position)

    def entry(self, at: int) -> tuple[int, int]:
        """Return (last offset, position) of entry `at`. Entry 0 is the first, entry -1 the last."""
        return self.base_offset + self._relative[at], self._positions[at]

    def find(self, offset: int) -> tuple[int, int] | None:
        """Return the last entry of a batch that ends at or before `offset`."""
        below = bisect_right(self._relative, offset - self.base_offset)
        return self.entry(below - 1) if below else None

    def find_position(self, position: int) -> tuple[int, int] | None:
        """Return the last entry of a batch that begins at or before `position`."""
        below = bisect_right(self._positions, position)
        return self.entry(below - 1) if below else None

    def encode(self) -> bytes:
        """Return the content of the index file."""
        both = array(I32, bytes(len(self) * OFFSET_ENTRY_BYTES))
        both[0::2], both[1::2] = self._relative, self._positions
        return big_endian(both).tobytes()

    @classmethod
    def decode(cls, base_offset: int, data: bytes, log_bytes: int) -> OffsetIndex:
        """Parse the content of the index file.

        Raise CorruptIndex if an entry is incomplete, does not exceed the previous entry, or is beyond `log_bytes`.
        """
        if len(data) % OFFSET_ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of {OFFSET_ENTRY_BYTES}-byte entries")
        index = cls(base_offset)
        both = big_endian(array(I32, data))
        index._relative, index._positions = both[0::2], both[1::2]
        if index and not (
            rises(index._relative)
            and rises(index._positions)
            and index._relative[0] >= 0
            # The batch at position 0 never has an entry.
            and index._positions[0] > 0
            and index._positions[-1] < log_bytes
        ):
            raise CorruptIndex(f"{len(index)} entries do not all ascend within {log_bytes} bytes")
        return index


class TimeIndex:
    """The time index, which maps a timestamp to the offset at which to start searching."""

    __slots__ = ("_relative", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array(I64)
        self._relative = array(I32)

    def __len__(self) -> int:
        return len(self._timestamps)

    def add(self, timestamp: int, last_offset: int) -> None:
        """Add an entry for the largest timestamp so far, if it is larger than the timestamp of the last entry."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            self._timestamps.append(timestamp)
            self._relative.append(last_offset - self.base_offset)

    def entry(self, at: int) -> tuple[int, int]:
        """Return (timestamp, last offset) of entry `at`. Entry 0 is the first, entry -1 the last."""
        return self._timestamps[at], self.base_offset + self._relative[at]

    def find_below(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last entry with a timestamp below `timestamp`.

        No record up to its offset has `timestamp` or a later one.
        """
        below = bisect_left(self._timestamps, timestamp)
        return self.entry(below - 1) if below else None

    def encode(self) -> bytes:
        """Return the content of the index file."""
        halves = array(I32, big_endian(self._timestamps[:]).tobytes())
        columns = array(I32, bytes(len(self) * TIME_ENTRY_BYTES))
        # An entry has three columns of 4 bytes: the halves of the timestamp, and the relative offset.
        columns[0::3], columns[1::3] = halves[0::2], halves[1::2]
        columns[2::3] = big_endian(self._relative[:])
        return columns.tobytes()

    @classmethod
    def decode(cls, base_offset: int, data: bytes, next_offset: int) -> TimeIndex:
        """Parse the content of the index file.

        Raise CorruptIndex if an entry is incomplete, does not exceed the previous entry, or reaches `next_offset`.
        """
        if len(data) % TIME_ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of {TIME_ENTRY_BYTES}-byte entries")
        index = cls(base_offset)
        columns = array(I32, data)
        halves = array(I32, bytes(len(columns) // 3 * 8))
        halves[0::2], halves[1::2] = columns[0::3], columns[1::3]
        index._timestamps = big_endian(array(I64, halves.tobytes()))
        index._relative = big_endian(columns[2::3])
        if index and not (
            rises(index._timestamps)
            and rises(index._relative)
            and index._timestamps[0] >= 0
            and index._relative[0] >= 0
            and index.entry(-1)[1] < next_offset
        ):
            raise CorruptIndex(f"{len(index)} entries do not all ascend below offset {next_offset}")
        return index


def big_endian(column: array[int]) -> array[int]:
    """Convert an array in place from or to the byte order of the file, and return it."""
    if sys.byteorder == "little":
        column.byteswap()
    return column


def rises(column: array[int]) -> bool:
    """Whether every element is larger than the previous one."""
    return all(map(lt, column, islice(column, 1, None)))
