"""Reading a log: by offset, by time, by transaction, from the newest batches in memory or from the files."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.recovery.rebuild import read_aborted
from pykbroker.storage.recovery.recovery import LogState
from pykbroker.storage.segments.lookup import aborted_between, aborted_within, first_since, youngest
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.record_times import RecordTimes, TimestampOffset
from pykbroker.storage.segments.segment import Segment
from pykbroker.storage.segments.segments import Segments
from pykbroker.storage.segments.tail import JOIN_BYTES_MAX, Tail
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode


class LogReads:
    """The half of a log that changes nothing. Who can wait calls what raises NotCached by way of `errors.patiently`."""

    def __init__(self, opening: Opening, off_loop: OffLoop, state: LogState) -> None:
        self._opening, self._disk, self._traffic = opening, opening.disk, opening.traffic
        self._segments = Segments(opening, state.sealed, state.unsynced, state.active)
        self._active = state.active
        self._tail = Tail()
        self._times = RecordTimes(off_loop)
        self.epochs, self.producers = state.epochs, state.producers
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.active.next_offset

    @property
    def directory(self) -> str:
        """Where its files are."""
        return self._opening.directory

    @property
    def segments(self) -> Segments:
        """For who compacts them."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """Of all batches on disk."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """How many files the batches are in."""
        return len(self._segments.every())

    @property
    def starts_inside(self) -> bool:
        """Whether records before `log_start_offset` are still in the first segment, so that only a checkpoint tells."""
        return self.log_start_offset > self._segments.every()[0].base_offset

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> Buffer | FileSlice:
        """Whole batches from the one that holds `offset`, all below `upper_offset`; empty when there is none.

        At most `bytes_max` bytes, or the first batch if `at_least_one` (KIP-74). OFFSET_OUT_OF_RANGE below the log's
        start and above its end. NotCached: `read_slowly` waits for the disk.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in {self.log_start_offset}..{end}")
        if offset >= upper_offset or offset == end:
            return b""
        tail = self._tail
        if offset >= tail.first_offset:
            segment: Segment = self._active
            position, size, data = tail.find(offset, bytes_max, upper_offset, end, segment.size, at_least_one)
            if data is not None:
                self._traffic.bytes_out += len(data)
                return data
        else:
            segment, position, size = self._segments.extent(offset, bytes_max, upper_offset, at_least_one)
        if not size:
            return b""
        copied = size <= JOIN_BYTES_MAX or self._opening.loaded.is_crowded
        found = segment.file.read_nowait(position, size) if copied else FileSlice(segment.file, position, size)
        self._traffic.bytes_out += size
        return found

    async def read_slowly(
        self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """As `read`, waiting for the disk where needed. CorruptLog: what is stored there does not hold."""
        return await patiently(lambda: self.read(offset, bytes_max, upper_offset, at_least_one=at_least_one))

    def bytes_between(self, offset: int, upper_offset: int, enough: int) -> int:
        """How much `read` could give without a limit, counted no further than the newest batches: else `enough`."""
        if offset >= upper_offset:
            return 0
        if offset < self._tail.first_offset:
            return enough
        return self._tail.bytes_from(offset, upper_offset, self.log_end_offset, self._active.size)

    def offset_for_timestamp(self, timestamp: int, upper_offset: int) -> TimestampOffset | None:
        """The first record below `upper_offset` that is as young as `timestamp`. NotCached."""
        found = first_since(self._segments, self._times, timestamp, self.log_start_offset)
        return found if found and found.offset < upper_offset else None

    def max_timestamp(self) -> TimestampOffset | None:
        """The youngest record, the first of them if there are several. NotCached."""
        return youngest(self._segments, self._times)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided, by a marker that `high_watermark` has passed."""
        return max(self.log_start_offset, self.producers.transactions.last_stable_offset(high_watermark))

    def aborted_transactions(self, offset: int, data: Buffer | FileSlice) -> list[AbortedTransaction]:
        """Those with data in what `read` answered for `offset`. NotCached."""
        return aborted_within(self._segments, offset, data, self._read_aborted)

    async def aborted_between(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Those with data in start..upper offset (exclusive)."""
        return await aborted_between(self._segments, start_offset, upper_offset, self._read_aborted)

    async def _read_aborted(self, segment: Segment) -> None:
        await read_aborted(self._disk, self.directory, self._segments.every(), segment)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(The largest epoch not above this one, where it ends), (-1, -1) when it is not known yet."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)
