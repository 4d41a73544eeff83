"""The loading of a segment's indexes from their files and from the log.

Valid index files are used, and the rest of the segment is indexed from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from pykbroker.storage.files.errors import CorruptLog, Mismatch, Pending, patiently
from pykbroker.storage.files.small_files import read_disposable
from pykbroker.storage.segments.headers import BadHeader, Headers
from pykbroker.storage.segments.indexes import CorruptIndex, OffsetIndex, TimeIndex
from pykbroker.storage.segments.segment import ActiveSegment, Segment, file_name
from pykbroker.storage.segments.walk import RELATIVE_OFFSET_MAX, Walk
from pykbroker.world.disk import Disk, File
from wire.sentinels import NO_OFFSET, NO_TIMESTAMP

T = TypeVar("T")


class Loading(msgspec.Struct, gc=False):
    """The result of loading a segment. `damage` describes an invalid batch that ends the segment before its file ends.

    `index_file` and `times_file` are the contents of the index files, or None without a file.
    """

    damage: str | None = None
    index_file: bytes | None = None
    times_file: bytes | None = None

    def found_all(self, segment: ActiveSegment) -> bool:
        """Whether the files have all index entries of the loaded segment. An empty segment needs no time index."""
        found = self.index_file, self.times_file if segment.size else self.times_file or b""
        return found == (segment.index.encode(), segment.times.encode())


async def load(disk: Disk, directory: str, segment: ActiveSegment, present: list[str] | None = None) -> Loading:
    """Load the indexes of a segment that was just opened. Checksums are not verified.

    `present` has the names of its index files, if the caller has listed the directory.
    """
    loading = Loading()
    if present is None or present:
        loading.index_file = await _read(disk, file_name(directory, segment.base_offset, ".index"))
        loading.times_file = await _read(disk, file_name(directory, segment.base_offset, ".timeindex"))
    if loading.index_file and loading.times_file is not None:
        await _resume(segment, loading.index_file, loading.times_file)
    loading.damage = await note_rest(segment, segment.file.size)
    segment.rest()
    return loading


async def _read(disk: Disk, path: str) -> bytes | None:
    """Return the content of an index file, or None if the file is missing.

    Return None also if a directory has the name of the file.
    """
    return None if disk.is_directory(path) else await read_disposable(disk, path)


async def note_rest(segment: ActiveSegment, end: int) -> str | None:
    """Index the batches between the segment's end and `end`. Return a description of the first invalid batch."""
    walk = Walk(segment.file, segment.size, end, segment.base_offset, segment.next_offset, check_crc=False)
    while found := await walk.more():
        for _, batch in found:
            segment.note_batch(batch)
    return walk.damage


def attempt(segment: Segment, look: Callable[[], T]) -> T:
    """Return the result of `look()`, a search in the segment.

    Raise Pending if the indexes of the segment contradict the log and must be rebuilt.
    """
    try:
        return look()
    except (BadHeader, Mismatch):
        raise Pending(partial(reindex, segment), "index", segment) from None


async def reindex(segment: Segment) -> None:
    """Rebuild the indexes from the log, which may grow during the call. Raise CorruptLog if a batch is damaged."""
    await patiently(segment.require_loaded)
    fresh = ActiveSegment(segment.base_offset, segment.file, segment.config)
    while fresh.size < segment.size:
        if damage := await note_rest(fresh, segment.size):
            raise CorruptLog(f"segment {segment.base_offset}: {damage}")
    fresh.rest()
    segment.index, segment.times = fresh.index, fresh.times
    segment.reindexed()


async def _resume(segment: ActiveSegment, index_file: bytes, times_file: bytes) -> None:
    """Load both index files and continue after the batch of the last entry, if both files are valid."""
    base, file = segment.base_offset, segment.file
    try:
        index = OffsetIndex.decode(base, index_file, file.size)
        times = TimeIndex.decode(base, times_file, base + RELATIVE_OFFSET_MAX + 1)
        size, max_timestamp = await patiently(lambda: _last_batch(file, index, times))
        # The first batch is not walked through again, and the age of the segment counts from its timestamp.
        segment.begin(max_timestamp)
    except (CorruptIndex, BadHeader):
        return
    last_offset, position = index.entry(-1)
    segment.resume(index, times, position + size, last_offset + 1)


def _last_batch(file: File, index: OffsetIndex, times: TimeIndex) -> tuple[int, int]:
    """Return (size of the last indexed batch, largest timestamp of the first batch).

    Raise CorruptIndex if the log contradicts the indexes. Raise NotCached if the batches must be read from the disk.
    """
    headers = Headers(file, file.size)
    headers.at(0)
    first_timestamp = headers.max_timestamp
    last_offset, position = index.entry(-1)
    _, size, last_offset_there = headers.at(position)
    youngest, of_offset = times.entry(-1) if times else (NO_TIMESTAMP, NO_OFFSET)
    # Index files have no checksum, so that their last entries are compared with the batches.
    if last_offset_there != last_offset or headers.max_timestamp > youngest:
        raise CorruptIndex(f"the batch at byte {position} contradicts the indexes")
    if times:
        before = index.find(of_offset)
        headers.at(headers.position_of(of_offset, before[1] if before else 0))
        if headers.max_timestamp != youngest:
            raise CorruptIndex(f"offset {of_offset} does not have the timestamp {youngest}")
    return size, first_timestamp
