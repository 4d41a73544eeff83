"""A reader of a segment's file, batch by batch, which validates every batch.

The walk ends at a batch that is cut off, has a wrong magic or checksum, or has offsets below the previous batch.
`damage` describes this batch, and `position` is the end of the last valid batch. The walk needs memory for
`CHUNK_BYTES`, or for one batch if that is larger.
"""

from __future__ import annotations

from pykbroker.storage.files.reading import CHUNK_BYTES, read_file
from pykbroker.world.disk import Buffer, File
from wire.errors import DecodeError
from wire.records.batch import CRC_START, HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, Batch
from wire.records.crc import crc32c

RELATIVE_OFFSET_MAX = 2**31 - 1
"""The largest difference between an offset and the base offset of its segment."""


class Walk:
    """A walk from byte `position` to byte `end` of the segment that begins at offset `base_offset`.

    `next_offset` is the smallest base offset that the next batch may have.
    """

    def __init__(
        self, file: File, position: int, end: int, base_offset: int, next_offset: int, *, check_crc: bool
    ) -> None:
        self.position, self.next_offset = position, next_offset
        self._offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.damage: str | None = None
        self._file, self._end, self._check_crc = file, end, check_crc
        self._chunk_bytes = CHUNK_BYTES

    async def more(self) -> list[tuple[int, Batch]]:
        """Return (position, batch) of the batches in the next chunk, or an empty list after the last valid batch."""
        while self.damage is None and self.position < self._end:
            data = await read_file(self._file, self.position, min(self._chunk_bytes, self._end - self.position))
            if found := self._parse(data):
                return found
        return []

    def _parse(self, data: Buffer) -> list[tuple[int, Batch]]:
        view, found = memoryview(data), list[tuple[int, Batch]]()
        self._chunk_bytes = CHUNK_BYTES
        at = self._take(view, found)
        if at < len(view):
            self._stop(view, at, self.position - at)
        return found

    def _take(self, view: memoryview, found: list[tuple[int, Batch]]) -> int:
        """Append the valid whole batches at the start of `view` to `found`, and return their size in bytes.

        A start may read millions of batches, so that this loop makes no avoidable call.
        """
        start, next_offset, offset_max, check_crc = self.position, self.next_offset, self._offset_max, self._check_crc
        at, last_at, end = 0, len(view) - HEADER_BYTES, 0
        while at <= last_at:
            fields = HEADER.unpack_from(view, at)
            base_offset, batch_length, _, magic, crc, _, delta = fields[:7]
            end = at + LENGTH_OVERHEAD + batch_length
            if (
                end > len(view)
                or end < at + HEADER_BYTES
                or magic != MAGIC
                or base_offset < next_offset
                or delta < 0
                or base_offset + delta > offset_max
            ):
                break
            buffer = view[at:end]
            if check_crc and crc32c(buffer, CRC_START) != crc:
                break
            found.append((start + at, Batch(buffer, *fields)))
            at, next_offset = end, base_offset + delta + 1
        self.position, self.next_offset = start + at, next_offset
        return at

    def _stop(self, view: memoryview, at: int, start: int) -> None:
        """Set `damage`, unless the batch at `at` is only incomplete because it ends beyond `view`.

        `start` is the position in the file at which `view` begins.
        """
        claimed = LENGTH_OVERHEAD + int.from_bytes(view[at + 8 : at + 12], "big", signed=True)
        size = max(claimed, HEADER_BYTES)
        if at + size > len(view):
            # The next chunk begins with this batch.
            if at and start + len(view) < self._end:
                return
            # The batch is larger than a chunk, and the next one has all of it.
            if start + at + size <= self._end:
                self._chunk_bytes = size
                return
        try:
            self.damage = self._fault(Batch.read(view, at))
        except DecodeError as error:
            self.damage = str(error)

    def _fault(self, batch: Batch) -> str:
        if batch.base_offset < self.next_offset:
            return f"batch of offset {batch.base_offset} where {self.next_offset} or more was expected"
        if batch.last_offset_delta < 0:
            return f"batch of offset {batch.base_offset} has the last offset delta {batch.last_offset_delta}"
        if batch.last_offset > self._offset_max:
            return f"batch of offset {batch.base_offset} is too far above the base offset of its segment"
        return f"batch of offset {batch.base_offset} does not have its checksum {batch.crc:08x}"
