"""The part of a log that removes records: truncation, DeleteRecords, retention, and the swap of compacted segments."""

from __future__ import annotations

import logging

import trio

from pykbroker.core.errors import ApiError
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.log.retention import expired
from pykbroker.storage.log.state import LogState
from pykbroker.storage.log.swap import require_sources, swap
from pykbroker.storage.recovery.rebuild import producers_at
from pykbroker.storage.segments.cleaned import CleanedSegment
from pykbroker.storage.segments.leftovers import offsets_of
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import file_name
from wire.error_codes import ErrorCode
from wire.sentinels import NO_OFFSET

logger = logging.getLogger(__name__)


class LogShrinker:
    """The part of a log that removes records. Its operations run one at a time, under `lock`.

    A cancellation does not interrupt a truncation, since the log would continue with a wrong end.
    """

    __slots__ = ("_disk", "_flusher", "_segments", "_state", "lock")

    def __init__(self, state: LogState, flusher: Flusher) -> None:
        self._state, self._flusher = state, flusher
        self._disk, self._segments = state.disk, state.segments
        self.lock = trio.Lock()

    def delete_records(self, offset: int) -> int:
        """Raise the log start offset to `offset`, unless it is higher already, and return it.

        `retain` deletes the segments below it later. Raise OFFSET_OUT_OF_RANGE if `offset` is above the log end offset.
        """
        state = self._state
        if offset > state.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above the end {state.log_end_offset}")
        if offset > state.log_start_offset:
            state.log_start_offset = offset
            if state.epochs.truncate_start(offset):
                self._flusher.save_epochs()
        return state.log_start_offset

    async def retain(self, now_ms: int, high_watermark: int) -> None:
        """Delete the segments below `high_watermark` that retention or the log start offset allows to delete."""
        async with self.lock:
            state, segments = self._state, self._segments
            expired_count, why = await expired(state.opening, segments, state.log_start_offset, high_watermark, now_ms)
            if not expired_count:
                return
            if expired_count > len(segments.sealed):
                # The active segment has expired as well, and a log is never without one.
                state.roll()
            start = segments.every()[expired_count].base_offset
            logger.info("%s: segments below offset %d are deleted: %s", state.directory, start, why)
            self.delete_records(start)
            await self._drop_below(start)

    async def _drop_below(self, start: int) -> None:
        """Drop the segments below `start`, oldest first.

        A power failure then leaves no gap between the remaining segments. The leader epochs, which record that the log
        begins at `start`, are written first. If the disk is full, their file is removed instead: with the old start,
        the next start of the broker would miss the dropped segments.
        """
        try:
            await self._flusher.settle([])
        except OSError as failure:
            logger.warning("%s: the leader epochs cannot be written: %s", self._state.directory, failure)
            await self._flusher.remove_epochs()
        await self._flusher.sync_names()
        while self._segments.every()[0].base_offset < start:
            self._segments.drop_oldest()
            await self._flusher.sync_names()

    async def truncate(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all later ones, durably.

        The caller lowers every checkpoint to `offset` first, as `storage/directory/truncation` does, and prevents
        appends during the call. If `offset` is the end of the log, only leader epochs without records are dropped.
        """
        async with self.lock:
            if offset >= self._state.log_end_offset:
                if self._state.epochs.truncate_end(self._state.log_end_offset):
                    self._flusher.save_epochs()
                return
            with trio.CancelScope(shield=True):
                if offset < self._segments.every()[0].base_offset:
                    await self._begin_anew(offset, offset)
                else:
                    await self._cut(offset)

    async def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drop all records and continue the log at `offset`.

        The log start offset is `offset`, or `log_start_offset` if that is inside the batch to be appended next. The
        caller prevents appends during the call.
        """
        async with self.lock:
            with trio.CancelScope(shield=True):
                await self._begin_anew(offset, offset if log_start_offset is None else log_start_offset)

    async def _cut(self, offset: int) -> None:
        # Other tasks read during the truncation, and must not find dropped batches in memory.
        self._state.tail.clear()
        await self._drop_above(offset)
        active = await self._segments.cut(offset)
        await self._flusher.sync_cut()
        # The log may have started inside the first batch that was dropped.
        self._state.log_start_offset = min(self._state.log_start_offset, active.next_offset)
        await self._resume_at(active.next_offset)

    async def _drop_above(self, offset: int) -> None:
        """Drop the segments that begin above `offset`, newest first, so that a power failure leaves no gap.

        The first segment is never dropped.
        """
        while self._segments.sealed and self._segments.active.base_offset > offset:
            await self._segments.drop_newest()
            await self._flusher.sync_names()

    async def _begin_anew(self, offset: int, log_start_offset: int) -> None:
        """Replace all segments by an empty one at `offset`.

        The new log shares no record with the old one, which may even be of another history. So nothing that is
        remembered beside the old log holds for the new one, whether its offsets are lower or higher. If the leader
        epoch file cannot be removed, the log is as before.
        """
        state = self._state
        await self._flusher.remove_epochs()
        state.epochs.clear()  # before another task runs, which might write the old epochs into their file again
        state.tail.clear()
        await self._drop_above(NO_OFFSET)  # all segments
        self._segments.begin_anew(offset)
        self._drop_snapshots(NO_OFFSET)
        await self._flusher.sync_names()
        state.log_start_offset = log_start_offset
        await self._resume_at(offset)

    async def _resume_at(self, end: int) -> None:
        """Make `end` the log end offset and drop all state of higher offsets."""
        state = self._state
        state.log_end_offset = end
        state.opening.cleaned_offset = min(state.opening.cleaned_offset, end)
        self._drop_snapshots(end)
        state.epochs.truncate_end(end)
        self._flusher.note_truncation(end)
        state.producers = await producers_at(self._disk, state.directory, self._segments.every(), end)

    def _drop_snapshots(self, end: int) -> None:
        """Remove the producer snapshots above `end`."""
        state, kept = self._state, NO_OFFSET
        for taken in offsets_of(self._disk.names(state.directory), ".snapshot"):
            if taken > end:
                self._disk.remove(file_name(state.directory, taken, ".snapshot"))
            else:
                kept = taken
        state.snapshot_offset = kept

    def begin_cleaned(self, sources: list[SealedSegment]) -> CleanedSegment:
        """Create the segment into which compaction rewrites these adjacent segments."""
        return CleanedSegment(self._state.opening, sources, self._flusher.require_log)

    async def swap_in(self, cleaned: CleanedSegment) -> None:
        """Replace the segments that compaction has read by the compacted segment.

        Raise Interrupted if the log no longer has those segments, ApiError if the log was deleted, and OSError if a
        disk operation fails.
        """
        sealed = await cleaned.finish()
        async with self.lock:
            # Retention or a truncation may have held the lock until now, and removed them.
            require_sources(self._segments, cleaned.sources)
            self._flusher.require_log()
            cleaned.keep_age()
            with trio.CancelScope(shield=True):
                await swap(self._state.opening, self._segments, self._flusher, cleaned.sources, sealed)

    def take_deleted(self) -> list[str]:
        """Return the files dropped since the previous call. The caller removes them after `file.delete.delay.ms`."""
        deleted, self._segments.deleted_files = self._segments.deleted_files, []
        return deleted
