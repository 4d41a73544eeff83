"""One segment of a log: a file of batches and its sparse indexes. What reading needs, and the one that grows."""

from __future__ import annotations

from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import Mismatch
from pykbroker.storage.segments.checked import Checked
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.storage.segments.headers import BadHeader, Headers
from pykbroker.storage.segments.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from pykbroker.storage.segments.walk import RELATIVE_OFFSET_MAX
from pykbroker.world.disk import File
from wire.records.batch import LENGTH_OVERHEAD, Batch


def file_name(directory: str, offset: int, suffix: str) -> str:
    """Path of a file that belongs to `offset`: a segment's base, or where a snapshot was taken."""
    return f"{directory}/{offset:020d}{suffix}"


class Segment:
    """`next_offset` is one above the last offset; sizes and positions in bytes.

    `aborted`: transactions whose abort marker stands here; with `aborted_unread` only those that this process wrote.
    `checked`: what was seen to hold its checksums.
    """

    __slots__ = (
        "aborted",
        "aborted_unread",
        "base_offset",
        "checked",
        "config",
        "file",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "times",
    )

    file: File
    index: OffsetIndex
    times: TimeIndex

    def __init__(self, base_offset: int, config: LogConfig) -> None:
        self.base_offset = self.next_offset = base_offset
        self.config = config
        self.size = 0
        self.max_timestamp, self.max_timestamp_offset = -1, base_offset
        self.aborted: list[AbortedTransaction] = []
        self.aborted_unread = False
        self.checked = Checked()

    def __str__(self) -> str:
        return f"segment {self.base_offset}"

    def may_hold(self, offset: int) -> bool:
        """Whether a batch may stand here that ends at or above `offset`."""
        return self.next_offset > max(offset, self.base_offset)

    def headers(self) -> Headers:
        """A way through the batches. NotCached."""
        return Headers(self.file, self.size)

    def position_of(self, offset: int, headers: Headers) -> int:
        """Where the first batch that ends at or above `offset` begins; the segment's size if none does."""
        return headers.position_of(offset, self._verified(self.index.find(offset), headers))

    def _verified(self, entry: tuple[int, int] | None, headers: Headers) -> int:
        """The position of an index entry. Mismatch: no batch begins there that ends with the entry's offset."""
        if entry is None:
            return 0
        last_offset, position = entry
        try:
            if headers.at(position)[2] == last_offset:
                return position
        except BadHeader:
            pass
        raise Mismatch(f"segment {self.base_offset}: no batch at byte {position} ends with offset {last_offset}")

    def position_since(self, timestamp: int, offset: int, headers: Headers) -> int:
        """Where the first batch begins that ends at or above `offset` and has a record as young as `timestamp`."""
        below = self.times.find_below(timestamp)
        if below is not None:
            of_timestamp, of_offset = below
            headers.at(self.position_of(of_offset, headers))
            if headers.max_timestamp != of_timestamp:
                raise Mismatch(f"segment {self.base_offset}: offset {of_offset} is not of time {of_timestamp}")
            offset = max(offset, of_offset + 1)
        return headers.position_since(timestamp, self.position_of(offset, headers))

    def reindexed(self) -> None:
        """The indexes were built anew."""

    def require_loaded(self) -> None:
        """Pending, until the indexes are there; an active segment has them."""

    def require_date(self) -> None:
        """Pending, until `max_timestamp` is known; an active segment knows it."""

    def extent(self, offset: int, bytes_max: int, upper_offset: int, at_least_one: bool) -> tuple[int, int]:
        """(position, size) of the whole batches from the one with `offset` on that end below `upper_offset`."""
        headers = self.headers()
        start = self.position_of(offset, headers)
        end = self.size if upper_offset >= self.next_offset else self.position_of(upper_offset, headers)
        if end <= start:
            return start, 0
        if end - start > bytes_max:
            limit = start + bytes_max
            indexed = self._verified(self.index.find_position(limit), headers)
            end = headers.boundary_before(limit, max(start, indexed))
            if end == start and at_least_one:
                end = start + headers.at(start)[1]
        return start, end - start


class ActiveSegment(Segment):
    """The newest segment. `size_max`, `offset_max` and `timestamp_max` are what a batch may not pass without a roll.

    `indexed_bytes`: what its index files speak of; 0 where there are none, -1 where that is not known.
    """

    __slots__ = ("_began_ms", "_jitter_ms", "_since_entry", "indexed_bytes", "offset_max", "size_max", "timestamp_max")

    def __init__(self, base_offset: int, file: File, config: LogConfig, jitter_ms: int = 0) -> None:
        super().__init__(base_offset, config)
        self.file = file
        self.index, self.times = OffsetIndex(base_offset), TimeIndex(base_offset)
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX
        self._began_ms, self._jitter_ms = -1, jitter_ms
        self._since_entry = 0
        self.indexed_bytes = -1
        self.configure(config)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was appended."""
        return not self.size

    @property
    def lacks_index(self) -> bool:
        """Whether index files must be written for the next start to have what is indexed."""
        return self.indexed_bytes != self.size and (self.indexed_bytes != 0 or len(self.index) > 0)

    def refuses(self, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether such a batch must begin the next segment."""
        return (
            self.size + size > self.size_max or max_timestamp > self.timestamp_max or last_offset > self.offset_max
        ) and self.size > 0

    def configure(self, config: LogConfig) -> None:
        """Take limits from now on."""
        self.config = config
        self.size_max = config.segment_bytes
        self.begin(self._began_ms)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """A batch of `size` bytes stands at the end of the file: index it."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if not position:
            self.begin(max_timestamp)
        if self._since_entry > self.config.index_interval_bytes:
            self._index(last_offset, position)
        self._since_entry += size
        self.size = position + size
        self.next_offset = last_offset + 1

    def note_batch(self, batch: Batch) -> None:
        """As `note`, for a batch that is parsed."""
        last_offset = batch.base_offset + batch.last_offset_delta
        self.note(batch.batch_length + LENGTH_OVERHEAD, last_offset, batch.max_timestamp)

    def begin(self, timestamp: int) -> None:
        """The first batch decides when the segment is old: `roll_ms` by the stamps of the records, less jitter."""
        self._began_ms = timestamp
        self.timestamp_max = LONG_MAX if timestamp < 0 else timestamp + self.config.roll_ms - self._jitter_ms

    def _index(self, last_offset: int, position: int) -> None:
        self.index.add(last_offset, position)
        self.times.add(self.max_timestamp, self.max_timestamp_offset)
        self._since_entry = 0
        room = self.config.segment_index_bytes
        if len(self.index) >= room // OFFSET_ENTRY_BYTES or len(self.times) >= room // TIME_ENTRY_BYTES - 1:
            self.size_max = 0  # full: whatever comes next begins a segment

    def resume(self, index: OffsetIndex, times: TimeIndex, size: int, next_offset: int) -> None:
        """Go on from indexes that a file held: all below `size` is in them."""
        self.index, self.times, self.size, self.next_offset = index, times, size, next_offset
        if times:
            self.max_timestamp, self.max_timestamp_offset = times.entry(-1)

    def rest(self) -> None:
        """At roll, close and recovery the time index gets the largest timestamp; entries are then counted anew."""
        self.times.add(self.max_timestamp, self.max_timestamp_offset)
        self._since_entry = 0
