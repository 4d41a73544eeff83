"""Opening a segment's file: its indexes from their files as far as these hold, the rest from the log."""

from __future__ import annotations

import msgspec

from pykbroker.storage.headers import BadHeader, Headers
from pykbroker.storage.indexes import CorruptIndex, OffsetIndex, TimeIndex
from pykbroker.storage.segment import RELATIVE_OFFSET_MAX, ActiveSegment, file_name
from pykbroker.storage.small_files import read_whole
from pykbroker.storage.errors import patiently
from pykbroker.storage.walk import Walk
from pykbroker.world.disk import Disk, File


class Loading(msgspec.Struct, gc=False):
    """What was found. `damage` says what ends the segment before its file does.

    `index_file`, `times_file`: what stood in the index files, None where there was none.
    """

    damage: str | None = None
    index_file: bytes | None = None
    times_file: bytes | None = None


async def load(disk: Disk, directory: str, segment: ActiveSegment, *, trust: bool = True) -> Loading:
    """Fill a segment that was just opened; without `trust` its index files are not believed.

    Checksums are not looked at.
    """
    loading = Loading(index_file=await _content(disk, file_name(directory, segment.base_offset, ".index")),
                      times_file=await _content(disk, file_name(directory, segment.base_offset, ".timeindex")))
    if trust and loading.index_file and loading.times_file is not None:
        await _resume(segment, loading.index_file, loading.times_file)
    walk = Walk(segment.file, segment.size, segment.file.size, segment.next_offset, check_crc=False)
    while found := await walk.more():
        for _, batch in found:
            segment.note_batch(batch)
    loading.damage = walk.damage
    return loading


async def _content(disk: Disk, path: str) -> bytes | None:
    try:
        return await read_whole(disk, path)
    except FileNotFoundError:
        return None


async def _resume(segment: ActiveSegment, index_file: bytes, times_file: bytes) -> None:
    """Go on behind the batch of the last index entry, if both indexes hold."""
    base, file = segment.base_offset, segment.file
    try:
        index = OffsetIndex.decode(base, index_file, file.size)
        times = TimeIndex.decode(base, times_file, base + RELATIVE_OFFSET_MAX + 1)
        size, max_timestamp = await patiently(lambda: _last_batch(file, index, times))
        segment.begin(max_timestamp)
    except (CorruptIndex, BadHeader):
        return
    last_offset, position = index.entry(-1)
    segment.resume(index, times, position + size, last_offset + 1, size)


def _last_batch(file: File, index: OffsetIndex, times: TimeIndex) -> tuple[int, int]:
    """(size of the last indexed batch, max timestamp of the first). CorruptIndex: the log says otherwise. NotCached."""
    headers = Headers(file, file.size)
    headers.at(0)
    first_timestamp = headers.max_timestamp
    last_offset, position = index.entry(-1)
    _, size, last_offset_there = headers.at(position)
    youngest, of_offset = times.entry(-1) if times else (-1, -1)
    if last_offset_there != last_offset or headers.max_timestamp > youngest:
        raise CorruptIndex(f"the batch at byte {position} is not what the indexes say of it")
    if times:
        before = index.find(of_offset)
        headers.at(headers.position_of(of_offset, before[1] if before else 0))
        if headers.max_timestamp != youngest:
            raise CorruptIndex(f"offset {of_offset} does not have the timestamp {youngest}")
    return size, first_timestamp
