"""A segment of a log: a file of batches and its sparse indexes. An `ActiveSegment` is a `Segment` that grows."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import Mismatch
from pykbroker.storage.segments.checked import Checked
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.headers import BadHeader, Headers
from pykbroker.storage.segments.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from pykbroker.storage.segments.walk import RELATIVE_OFFSET_MAX
from pykbroker.world.disk import File
from wire.records.batch import LENGTH_OVERHEAD, Batch

BELOW_ALL = -(2**63) - 1
"""A number below every timestamp."""
NO_INDEX, UNKNOWN = -2, -1
"""The bytes that index files cover if there are none, and if their content is not known to be right."""


def no_clock() -> int:
    """Return 0, so that segments without timestamps never grow old."""
    return 0


def file_name(directory: str, offset: int, suffix: str) -> str:
    """Return the path of a file named by `offset`: a segment's base offset, or the offset of a snapshot."""
    return f"{directory}/{offset:020d}{suffix}"


class Segment:
    """A segment of a log. `next_offset` is one above the last offset. Sizes and positions are in bytes.

    `aborted` has the transactions whose abort marker is in this segment. While `aborted_unread` is true, it has only
    the transactions whose marker this process wrote. `aborted_cut` is true if a truncation removed the file that has
    the others. `checked` has the byte ranges whose checksums are verified.
    """

    __slots__ = (
        "aborted",
        "aborted_cut",
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
        self.aborted_unread = self.aborted_cut = False
        self.checked = Checked()

    def __str__(self) -> str:
        return f"segment {self.base_offset}"

    def may_hold(self, offset: int) -> bool:
        """Whether the segment may hold a batch that ends at or above `offset`."""
        return self.next_offset > max(offset, self.base_offset)

    def headers(self) -> Headers:
        """Return the batch headers of the segment. Raise NotCached if the headers must be read from the disk."""
        return Headers(self.file, self.size)

    def position_of(self, offset: int, headers: Headers) -> int:
        """Return the position of the first batch that ends at or above `offset`, or the segment's size."""
        return headers.position_of(offset, self._verified(self.index.find(offset), headers))

    def _verified(self, entry: tuple[int, int] | None, headers: Headers) -> int:
        """Return the position of an index entry. Raise Mismatch if no batch there ends with the entry's offset."""
        if entry is None:
            return 0
        last_offset, position = entry
        try:
            # An index file has no checksum. An entry is believed only if the batch at its position confirms it.
            if headers.at(position)[2] == last_offset:
                return position
        except BadHeader:
            pass
        raise Mismatch(f"segment {self.base_offset}: no batch at byte {position} ends with offset {last_offset}")

    def position_since(self, timestamp: int, offset: int, headers: Headers) -> int:
        """Return the position of the first batch that ends at or above `offset` and has `timestamp` or a later one."""
        below = self.times.find_below(timestamp)
        if below is not None:
            of_timestamp, of_offset = below
            headers.at(self.position_of(of_offset, headers))
            if headers.max_timestamp != of_timestamp:
                raise Mismatch(f"segment {self.base_offset}: offset {of_offset} has not the timestamp {of_timestamp}")
            offset = max(offset, of_offset + 1)
        return headers.position_since(timestamp, self.position_of(offset, headers))

    def reindexed(self) -> None:
        """Write the rebuilt indexes to the index files, if the segment is sealed."""

    def require_loaded(self) -> None:
        """Raise Pending unless the indexes are loaded. An active segment always has its indexes."""

    def require_date(self) -> None:
        """Raise Pending unless `max_timestamp` has been computed. The active segment always has its `max_timestamp`."""

    def extent(self, offset: int, bytes_max: int, upper_offset: int, at_least_one: bool) -> tuple[int, int]:
        """Return (position, size) of the whole batches below `upper_offset`, from the batch that holds `offset` on."""
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
    """The newest segment of a log, to which batches are appended.

    A batch that would exceed `size_max`, `offset_max` or `timestamp_max` begins the next segment. If the first batch
    has no timestamp, the time since the segment was opened decides instead, as in Kafka. Then `timestamp_max` is below
    every timestamp, so that `refuses` is asked about each batch. `indexed_bytes` is the number of bytes that the index
    files cover, or NO_INDEX, or UNKNOWN.
    """

    __slots__ = (
        "_began_ms",
        "_jitter_ms",
        "_opened_ms",
        "_since_entry",
        "_wall_ms",
        "indexed_bytes",
        "offset_max",
        "size_max",
        "timestamp_max",
    )

    def __init__(
        self, base_offset: int, file: File, config: LogConfig, jitter_ms: int = 0, wall_ms: Callable[[], int] = no_clock
    ) -> None:
        super().__init__(base_offset, config)
        self.file = file
        self.index, self.times = OffsetIndex(base_offset), TimeIndex(base_offset)
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX
        self._began_ms, self._jitter_ms = -1, jitter_ms
        self._wall_ms, self._opened_ms = wall_ms, wall_ms()
        self._since_entry = 0
        self.indexed_bytes = UNKNOWN
        self.configure(config)

    @property
    def is_empty(self) -> bool:
        """Whether the segment holds no batch."""
        return not self.size

    @property
    def lacks_index(self) -> bool:
        """Whether index files must be written so that the next start finds all index entries."""
        return self.indexed_bytes != self.size and (self.indexed_bytes != NO_INDEX or len(self.index) > 0)

    def refuses(self, size: int, last_offset: int, max_timestamp: int, pending: int = 0) -> bool:
        """Whether a batch with these values must begin the next segment, once `pending` bytes are appended."""
        filled = self.size + pending
        return filled > 0 and (
            filled + size > self.size_max
            or last_offset > self.offset_max
            or (max_timestamp > self.timestamp_max and (self._began_ms >= 0 or self._is_old()))
        )

    def _is_old(self) -> bool:
        """Whether the segment holds a batch and was opened `roll_ms`, less the jitter, ago."""
        return self.size > 0 and self._wall_ms() - self._opened_ms > self.config.roll_ms - self._jitter_ms

    def configure(self, config: LogConfig) -> None:
        """Apply the limits of these topic configs."""
        self.config = config
        self.size_max = config.segment_bytes
        self.begin(self._began_ms)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Index a batch of `size` bytes that was written at the end of the file."""
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
        """Index a parsed batch that was written at the end of the file."""
        last_offset = batch.base_offset + batch.last_offset_delta
        self.note(batch.batch_length + LENGTH_OVERHEAD, last_offset, batch.max_timestamp)

    def begin(self, timestamp: int) -> None:
        """Set `timestamp_max`: the segment rolls `roll_ms`, less the jitter, after the timestamp of its first batch."""
        self._began_ms = timestamp
        self.timestamp_max = BELOW_ALL if timestamp < 0 else timestamp + self.config.roll_ms - self._jitter_ms

    def _index(self, last_offset: int, position: int) -> None:
        self.index.add(last_offset, position)
        self.times.add(self.max_timestamp, self.max_timestamp_offset)
        self._since_entry = 0
        room = self.config.segment_index_bytes
        # One time entry is left for `rest`.
        if len(self.index) >= room // OFFSET_ENTRY_BYTES or len(self.times) >= room // TIME_ENTRY_BYTES - 1:
            self.size_max = 0  # the segment is full: the next batch begins another segment

    def resume(self, index: OffsetIndex, times: TimeIndex, size: int, next_offset: int) -> None:
        """Continue from indexes that were read from files and that cover all bytes below `size`."""
        self.index, self.times, self.size, self.next_offset = index, times, size, next_offset
        if times:
            self.max_timestamp, self.max_timestamp_offset = times.entry(-1)

    def rest(self) -> None:
        """Add the largest timestamp to the time index and restart the index interval.

        It is called at a roll, a close and a recovery.
        """
        self.times.add(self.max_timestamp, self.max_timestamp_offset)
        self._since_entry = 0
