"""The verification of stored batches before they are sent to clients, so that bit rot is detected.

The checksum does not cover offsets and leader epoch. Therefore two more rules are checked: offsets ascend, from the
last index entry before the range to the first batch header after it, and leader epochs never decrease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from struct import Struct

from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.files.reading import CHUNK_BYTES, read_file
from pykbroker.storage.segments.segment import Segment
from wire.records.batch import CRC_START, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC
from wire.records.crc import crc32c

FACTS = Struct(">qiibIhi")
"""The fields base offset, batch length, leader epoch, magic, checksum, attributes and last offset delta."""


Paced = Callable[[int], Awaitable[None]]
"""A function that is called with the number of bytes just read or written, and waits to limit the rate."""


async def unpaced(_size: int) -> None:
    """Return at once, without a limit on the rate."""


async def check(segment: Segment, directory: str, position: int, size: int, pace: Paced = unpaced) -> None:
    """Verify the whole batches in a range of the segment and record the range as verified.

    Raise CorruptLog if a batch is damaged.
    """
    if not segment.may_hold(segment.base_offset):
        return
    await patiently(segment.require_loaded)
    below = segment.index.find_position(position)
    scrub = Scrub(segment, below[1] if below else 0, position + size)
    await scrub.run(pace)
    if scrub.damage:
        raise CorruptLog(f"{directory}: segment {segment.base_offset}: {scrub.damage}")
    segment.checked.add(position, position + size)


class Scrub:
    """A verification of the batches of a segment between the byte positions `position` and `end`."""

    def __init__(self, segment: Segment, position: int, end: int) -> None:
        self._segment, self._position, self._end = segment, position, end
        self._next_offset, self._epoch = segment.base_offset, -1
        self.damage: str | None = None

    async def run(self, pace: Paced) -> None:
        """Read and verify the range. `damage` then describes the first damaged batch, if there is one."""
        file, chunk_bytes = self._segment.file, CHUNK_BYTES
        while self._position < self._end and self.damage is None:
            data = await read_file(file, self._position, min(chunk_bytes, self._end - self._position))
            taken = self._take(memoryview(data))
            if not taken and chunk_bytes >= self._end - self._position:
                self._note("does not end where its range does")
            self._position += taken
            await pace(len(data))
            chunk_bytes = CHUNK_BYTES if taken else 2 * chunk_bytes
        if self.damage is None and self._end < self._segment.size:
            base, _, epoch, *_ = FACTS.unpack_from(await read_file(file, self._end, HEADER_BYTES))
            self._check_order(base, epoch, 0)

    def _take(self, view: memoryview) -> int:
        """Verify the whole batches at the start of `view` and return their size in bytes."""
        at = 0
        while at + HEADER_BYTES <= len(view):
            base, length, epoch, magic, crc, _, delta = FACTS.unpack_from(view, at)
            after = at + LENGTH_OVERHEAD + length
            if after > len(view):
                break
            if magic != MAGIC or after < at + HEADER_BYTES or crc32c(view[at + CRC_START : after]) != crc:
                self._note(f"does not have its checksum {crc:08x}", at)
                break
            self._check_order(base, epoch, delta, at)
            at = after
        return at

    def _check_order(self, base_offset: int, epoch: int, delta: int, at: int = 0) -> None:
        last_offset = base_offset + delta
        if not self._next_offset <= base_offset <= last_offset < self._segment.next_offset or epoch < self._epoch:
            self._note(f"has offset {base_offset} and epoch {epoch}, out of order", at)
        self._next_offset, self._epoch = last_offset + 1, epoch

    def _note(self, what: str, at: int = 0) -> None:
        """Record the first damage."""
        if self.damage is None:
            self.damage = f"the batch at byte {self._position + at} {what}"
