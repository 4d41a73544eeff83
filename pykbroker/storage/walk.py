"""Going through a segment's file batch by batch, from the disk and without trust.

What ends the walk early stands in `damage`, and `position` is where the good part ends: a batch that is cut off, of a
wrong magic or checksum, or whose offsets go back. Memory: `CHUNK_BYTES`, or one batch if that is larger.
"""

from __future__ import annotations

from struct import Struct

from pykbroker.world.disk import Buffer, File, NotCached
from wire.errors import DecodeError
from wire.records.batch import CRC_START, HEADER_BYTES, LENGTH_OVERHEAD, Batch
from wire.records.crc import crc32c

CHUNK_BYTES = 1 << 20
CHECKED_PART = Struct(">i5xI")
"""From byte 8 of a batch: its length, leader epoch and magic, checksum."""


async def read_file(file: File, offset: int, size: int) -> Buffer:
    """Read, without a thread where the page cache has it."""
    try:
        return file.read_nowait(offset, size)
    except NotCached:
        return await file.read(offset, size)


class Walk:
    """One pass from `position` to `end` (bytes). `next_offset` is the least that the next batch may begin with."""

    def __init__(self, file: File, position: int, end: int, next_offset: int, *, check_crc: bool) -> None:
        self.position, self.next_offset = position, next_offset
        self.damage: str | None = None
        self._file, self._end, self._check_crc = file, end, check_crc
        self._wanted = CHUNK_BYTES

    async def more(self) -> list[tuple[int, Batch]]:
        """The batches of the next chunk, each with its position; empty at the end of what is good."""
        while self.damage is None and self.position < self._end:
            data = await read_file(self._file, self.position, min(self._wanted, self._end - self.position))
            if found := self._parse(data):
                return found
        return []

    def _parse(self, data: Buffer) -> list[tuple[int, Batch]]:
        found: list[tuple[int, Batch]] = []
        view, start, at = memoryview(data), self.position, 0
        self._wanted = CHUNK_BYTES
        while at < len(view):
            size = LENGTH_OVERHEAD + int.from_bytes(view[at + 8 : at + 12], "big", signed=True)
            ends_later = at + max(size, HEADER_BYTES) > len(view)
            if ends_later and at and start + len(view) < self._end:
                return found
            if ends_later and start + at + size <= self._end:
                self._wanted = size
                return found
            try:
                batch = Batch.read(view, at)
            except DecodeError as error:
                self.damage = str(error)
                return found
            self.damage = self._fault(batch)
            if self.damage:
                return found
            found.append((start + at, batch))
            at += batch.size
            self.position, self.next_offset = start + at, batch.last_offset + 1
        return found

    def _fault(self, batch: Batch) -> str | None:
        if batch.base_offset < self.next_offset:
            return f"batch of offset {batch.base_offset} where {self.next_offset} or more was due"
        if batch.last_offset_delta < 0:
            return f"batch of offset {batch.base_offset} ends {-batch.last_offset_delta} before it begins"
        if self._check_crc and not batch.crc_ok():
            return f"batch of offset {batch.base_offset} does not have its checksum {batch.crc:08x}"
        return None


async def check_range(file: File, position: int, end: int) -> str | None:
    """What is wrong with the checksums of the whole batches in position..end, None if nothing is."""
    wanted = CHUNK_BYTES
    while position < end:
        view = memoryview(await read_file(file, position, min(wanted, end - position)))
        at = 0
        while at + HEADER_BYTES <= len(view):
            length, crc = CHECKED_PART.unpack_from(view, at + 8)
            after = at + LENGTH_OVERHEAD + length
            if after > len(view):
                break
            if after < at + HEADER_BYTES or crc32c(view[at + CRC_START : after]) != crc:
                return f"the batch at byte {position + at} does not have its checksum {crc:08x}"
            at = after
        if at:
            position, wanted = position + at, CHUNK_BYTES
        elif wanted >= end - position:
            return f"the batch at byte {position} does not end with its range, {end - position} bytes later"
        else:
            wanted *= 2
    return None
