"""The offset and time index of one segment, in memory and in their files' form.

Offset index: 8-byte entries (relative offset i32, position i32), both strictly rising: the *last* offset of a batch
and the byte where that batch begins.
Time index: 12-byte entries (timestamp i64, relative offset i32), both strictly rising: the largest timestamp so far and
the last offset of the batch that contains it.
Big-endian, sparse. Disposable: what does not hold raises CorruptIndex and is rebuilt. Source: disk-format of Kafka 4.3.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class CorruptIndex(ValueError):
    """An index that contradicts itself or its log."""


class OffsetIndex:
    """Where in a segment to start reading for an offset. Offsets absolute, positions in bytes."""

    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("q")
        self._positions = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, last_offset: int, position: int) -> None:
        """A batch that begins at `position` and ends with `last_offset`; both above all before."""
        self._offsets.append(last_offset)
        self._positions.append(position)

    def position(self, offset: int) -> int:
        """Byte of the last indexed batch that ends at or before `offset`; 0 when there is none."""
        below = bisect_right(self._offsets, offset)
        return self._positions[below - 1] if below else 0

    def position_before(self, position: int) -> int:
        """Byte of the last indexed batch that begins at or before `position`; 0 when there is none."""
        below = bisect_right(self._positions, position)
        return self._positions[below - 1] if below else 0

    def last(self) -> tuple[int, int] | None:
        """The newest entry: (last offset, position)."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else None

    def encode(self) -> bytes:
        """The file's used bytes."""
        base = self.base_offset
        return b"".join(OFFSET_ENTRY.pack(offset - base, position)
                        for offset, position in zip(self._offsets, self._positions, strict=True))

    @classmethod
    def decode(cls, base_offset: int, data: bytes, log_bytes: int) -> OffsetIndex:
        """Parse the used bytes. CorruptIndex: ragged, not rising, or beyond `log_bytes`."""
        if len(data) % OFFSET_ENTRY.size:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of {OFFSET_ENTRY.size}-byte entries")
        index = cls(base_offset)
        for relative, position in OFFSET_ENTRY.iter_unpack(data):
            index.add(base_offset + relative, position)
        offsets = [base_offset - 1, *index._offsets]
        positions = [-1, *index._positions, log_bytes]
        if not all(a < b for a, b in pairwise(offsets)) or not all(a < b for a, b in pairwise(positions)):
            raise CorruptIndex(f"{len(index)} entries do not all rise within {log_bytes} bytes")
        return index


class TimeIndex:
    """From which offset of a segment on to look for a timestamp."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("q")

    def __len__(self) -> int:
        return len(self._timestamps)

    def add(self, timestamp: int, last_offset: int) -> None:
        """The largest timestamp so far, if it is larger than that of the entry before."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset)

    def offset_below(self, timestamp: int) -> int:
        """No record up to and including this offset is as young as `timestamp`; base offset - 1 when unknown."""
        below = bisect_left(self._timestamps, timestamp)
        return self._offsets[below - 1] if below else self.base_offset - 1

    def last(self) -> tuple[int, int] | None:
        """The newest entry: (timestamp, last offset)."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def encode(self) -> bytes:
        """The file's used bytes."""
        base = self.base_offset
        return b"".join(TIME_ENTRY.pack(timestamp, offset - base)
                        for timestamp, offset in zip(self._timestamps, self._offsets, strict=True))

    @classmethod
    def decode(cls, base_offset: int, data: bytes, next_offset: int) -> TimeIndex:
        """Parse the used bytes. CorruptIndex: ragged, not rising, or at or beyond `next_offset`."""
        if len(data) % TIME_ENTRY.size:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of {TIME_ENTRY.size}-byte entries")
        index = cls(base_offset)
        for timestamp, relative in TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(base_offset + relative)
        offsets = [base_offset - 1, *index._offsets, next_offset]
        if not all(a < b for a, b in pairwise(index._timestamps)) or not all(a < b for a, b in pairwise(offsets)):
            raise CorruptIndex(f"{len(index)} entries do not all rise below offset {next_offset}")
        return index
