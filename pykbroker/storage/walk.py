"""Going through a segment's file batch by batch, from the disk and without trust.

What ends the walk early stands in `damage`, and `position` is where the good part ends: a batch that is cut off, of a
wrong magic or checksum, or whose offsets go back. Memory: `CHUNK_BYTES`, or one batch if that is larger.
"""

from __future__ import annotations

import trio

from pykbroker.world.disk import Buffer, File, NotCached
from wire.errors import DecodeError
from wire.records.batch import HEADER_BYTES, LENGTH_OVERHEAD, Batch

CHUNK_BYTES = 256 << 10
RELATIVE_OFFSET_MAX = 2**31 - 1
"""How far an offset may be above its segment's base."""


async def read_file(file: File, offset: int, size: int) -> Buffer:
    """Read, without a thread where the page cache has it. A checkpoint either way."""
    try:
        data = file.read_nowait(offset, size)
    except NotCached:
        return await file.read(offset, size)
    await trio.lowlevel.checkpoint()
    return data


class Walk:
    """One pass from `position` to `end` (bytes) of the segment of `base_offset`.

    `next_offset` is the least that the next batch may begin with.
    """

    def __init__(self, file: File, position: int, end: int, base_offset: int, next_offset: int, *,
                 check_crc: bool) -> None:
        self.position, self.next_offset = position, next_offset
        self._offset_max = base_offset + RELATIVE_OFFSET_MAX
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
            claimed = LENGTH_OVERHEAD + int.from_bytes(view[at + 8 : at + 12], "big", signed=True)
            size = max(claimed, HEADER_BYTES)
            ends_later = at + size > len(view)
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
        if batch.last_offset > self._offset_max:
            return f"batch of offset {batch.base_offset} is too far from the others of its segment"
        if self._check_crc and not batch.crc_ok():
            return f"batch of offset {batch.base_offset} does not have its checksum {batch.crc:08x}"
        return None
