"""The part of a log that reads batches by offset, timestamp or transaction. The newest batches are in memory."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.log.state import LogState
from pykbroker.storage.recovery.rebuild import read_aborted
from pykbroker.storage.segments.lookup import aborted_between, aborted_within, first_since, youngest
from pykbroker.storage.segments.record_times import RecordTimes, TimestampOffset
from pykbroker.storage.segments.scrub import Paced, check
from pykbroker.storage.segments.segment import Segment
from pykbroker.storage.segments.tail import JOIN_BYTES_MAX
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode


class LogReader:
    """The part of a log that reads. After NotCached, `errors.patiently` waits for the disk and repeats the read."""

    __slots__ = ("_epochs", "_loaded", "_segments", "_state", "_tail", "_times", "_traffic")

    def __init__(self, state: LogState, off_loop: OffLoop) -> None:
        self._state, self._segments, self._tail, self._traffic = state, state.segments, state.tail, state.traffic
        self._epochs, self._loaded = state.epochs, state.opening.loaded
        self._times = RecordTimes(off_loop)

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> Buffer | FileSlice:
        """Return whole batches below `upper_offset`, starting with the batch that holds `offset`, or an empty buffer.

        The batches have at most `bytes_max` bytes in all. If `at_least_one` is true, the first batch may be larger
        (KIP-74). Raise OFFSET_OUT_OF_RANGE if `offset` is below the log start offset or above the log end offset. Raise
        NotCached if the read needs the disk; `read_patiently` waits for it.
        """
        state = self._state
        end = state.log_end_offset
        if not state.log_start_offset <= offset <= end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in {state.log_start_offset}..{end}")
        if offset >= upper_offset or offset == end:
            return b""
        tail = self._tail
        if offset >= tail.first_offset:
            segment: Segment = self._segments.active
            position, size, data = tail.find(offset, bytes_max, upper_offset, end, segment.size, at_least_one)
            if data is not None:
                self._traffic.bytes_out += len(data)
                return data
        else:
            segment, position, size = self._segments.extent(offset, bytes_max, upper_offset, at_least_one)
        if not size:
            return b""
        # A slice keeps the file of its segment open until it is sent.
        copied = size <= JOIN_BYTES_MAX or self._loaded.is_crowded
        found = segment.file.read_nowait(position, size) if copied else FileSlice(segment.file, position, size)
        self._traffic.bytes_out += size
        return found

    async def read_patiently(
        self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """Return the same batches as `read`, and wait for the disk where needed.

        Raise CorruptLog if the stored batches are damaged.
        """
        return await patiently(lambda: self.read(offset, bytes_max, upper_offset, at_least_one=at_least_one))

    def bytes_between(self, offset: int, upper_offset: int, enough: int) -> int:
        """Return the number of bytes that `read` would return from `offset` on.

        Return `enough` if `offset` is below the batches in memory.
        """
        if offset >= upper_offset:
            return 0
        if offset < self._tail.first_offset:
            return enough
        return self._tail.bytes_from(offset, upper_offset, self._state.log_end_offset, self._segments.active.size)

    def offset_for_timestamp(self, timestamp: int, upper_offset: int) -> TimestampOffset | None:
        """Return the first record below `upper_offset` whose timestamp is at least `timestamp`.

        Raise NotCached if the search needs the disk.
        """
        found = first_since(self._segments, self._times, timestamp, self._state.log_start_offset)
        return found if found and found.offset < upper_offset else None

    def max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, which may be -1 (no timestamp).

        Raise NotCached if the search needs the disk.
        """
        return youngest(self._segments, self._times)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset: every transaction below it has a marker below `high_watermark`."""
        state = self._state
        stable, start = state.producers.transactions.last_stable_offset(high_watermark), state.log_start_offset
        # DeleteRecords may have moved the start into an open transaction.
        return stable if stable > start else start

    def aborted_transactions(self, offset: int, data: Buffer | FileSlice) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in `data`, which `read` returned for `offset`.

        Raise NotCached if the search needs the disk.
        """
        return aborted_within(self._segments, offset, data, self._read_aborted)

    async def aborted_between(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records from `start_offset` to below `upper_offset`."""
        return await aborted_between(self._segments, start_offset, upper_offset, self._read_aborted)

    async def _read_aborted(self, segment: Segment) -> None:
        await read_aborted(self._state.disk, self._state.directory, self._segments.every(), segment)

    def end_offset_for_epoch(self, leader_epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch not above `leader_epoch`, with its end offset, or UNDEFINED if it is unknown."""
        return self._epochs.end_offset_for(leader_epoch, self._state.log_end_offset)

    async def scrub(self, pace: Paced) -> None:
        """Verify the checksums of all stored batches. Raise CorruptLog if a batch is damaged.

        Raise OSError if a read fails. Damage is ignored in a segment that is deleted or compacted during the call.
        """
        for segment in self._segments.every():
            try:
                await check(segment, self._state.directory, 0, segment.size, pace)
            except (CorruptLog, OSError):
                if segment in self._segments.every() and not self._state.is_deleted:
                    raise
