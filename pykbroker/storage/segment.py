"""One segment of a log: a file of batches and its sparse indexes. Active ones grow, sealed ones are read only."""

from __future__ import annotations

from pykbroker.storage.config import LONG_MAX, LogConfig
from pykbroker.storage.headers import Headers
from pykbroker.storage.indexes import OFFSET_ENTRY, OffsetIndex, TimeIndex
from pykbroker.world.disk import File
from wire.records.batch import Batch

RELATIVE_OFFSET_MAX = 2**31 - 1


def file_name(directory: str, offset: int, suffix: str) -> str:
    """Path of a file that belongs to `offset`: a segment's base, or where a snapshot was taken."""
    return f"{directory}/{offset:020d}{suffix}"


class Segment:
    """What reading needs. `next_offset` is one above the last offset; sizes and positions in bytes."""

    __slots__ = ("base_offset", "file", "index", "max_timestamp", "max_timestamp_offset", "next_offset", "size",
                 "times")

    def __init__(self, base_offset: int, file: File) -> None:
        self.base_offset = self.next_offset = base_offset
        self.file = file
        self.size = 0
        self.index = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.max_timestamp, self.max_timestamp_offset = -1, base_offset

    def position_of(self, offset: int, headers: Headers | None = None) -> int:
        """Where the first batch that ends at or above `offset` begins; the segment's size if none does."""
        headers = headers or Headers(self.file, self.size)
        return headers.position_of(offset, self.index.position(offset))

    def extent(self, offset: int, bytes_max: int, upper_offset: int, at_least_one: bool) -> tuple[int, int]:
        """(position, size) of the whole batches from the one with `offset` on that end below `upper_offset`."""
        headers = Headers(self.file, self.size)
        start = self.position_of(offset, headers)
        end = self.size if upper_offset >= self.next_offset else self.position_of(upper_offset, headers)
        if end <= start:
            return start, 0
        if end - start > bytes_max:
            end = headers.boundary_before(start + bytes_max, max(start, self.index.position_before(start + bytes_max)))
            if end == start and at_least_one:
                end = start + headers.at(start)[1]
        return start, end - start


class SealedSegment(Segment):
    """A segment that another one follows. It never changes."""

    __slots__ = ()


class ActiveSegment(Segment):
    """The newest segment. `size_max`, `offset_max` and `timestamp_max` are what a batch may not pass without a roll."""

    __slots__ = ("_config", "_since_entry", "jitter_ms", "offset_max", "size_max", "timestamp_max")

    def __init__(self, base_offset: int, file: File, config: LogConfig, jitter_ms: int = 0) -> None:
        super().__init__(base_offset, file)
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.jitter_ms = jitter_ms
        self.timestamp_max = LONG_MAX
        self._since_entry = 0
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Take limits from now on."""
        self._config = config
        self.size_max = config.segment_bytes

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """A batch of `size` bytes stands at the end of the file: index it."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if not position:
            self._begin(max_timestamp)
        if self._since_entry > self._config.index_interval_bytes:
            self._index(last_offset, position)
        self._since_entry += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def note_batch(self, batch: Batch) -> None:
        """As `note`, for a batch that is parsed."""
        self.note(batch.size, batch.last_offset, batch.max_timestamp)

    def _begin(self, timestamp: int) -> None:
        """The first batch decides when the segment is old: `segment.ms` by the stamps of the records, less jitter."""
        if timestamp >= 0:
            self.timestamp_max = timestamp + self._config.segment_ms - self.jitter_ms

    def _index(self, last_offset: int, position: int) -> None:
        self.index.add(last_offset, position)
        self.times.add(self.max_timestamp, self.max_timestamp_offset)
        self._since_entry = 0
        if (len(self.index) + 1) * OFFSET_ENTRY.size > self._config.segment_index_bytes:
            self.size_max = 0  # full: whatever comes next begins a segment

    def seal(self) -> SealedSegment:
        """The same segment, never to grow again."""
        sealed = SealedSegment(self.base_offset, self.file)
        sealed.size, sealed.next_offset = self.size, self.next_offset
        sealed.index, sealed.times = self.index, self.times
        sealed.max_timestamp, sealed.max_timestamp_offset = self.max_timestamp, self.max_timestamp_offset
        if self.max_timestamp >= 0:
            self.times.add(self.max_timestamp, self.max_timestamp_offset)
        return sealed
