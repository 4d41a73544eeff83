"""One compaction of one log. It collects the keys of the dirty segments, then rewrites all segments in groups.

A worker process selects the records (`core.compaction`). This module reads segments, sends them to the worker in
pieces, writes the result and swaps it in. A compaction keeps no state for the next one, so that a crash between two
groups loses only work.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from pykbroker.core.compaction.compactor import Begin, Compact, Compacted, Note, Noted, SegmentGroup
from pykbroker.core.compaction.dirty import DirtyRange, Sizes, below, dirty_range, first_dirty, groups
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.files.reading import read_file
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.swap import Interrupted, require_sources
from pykbroker.storage.segments.config import LONG_MAX
from pykbroker.storage.segments.scrub import Paced
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.world.worker import Worker
from wire.records.batch import HEADER_BYTES

PIECE_BYTES = 256 << 10
MAX_TIMESTAMP_FIELD = slice(35, 43)
"""The bytes of the maxTimestamp field in a batch header."""


class Cleanable(msgspec.Struct):
    """The segments of a log that may be compacted, with their dirty ratio."""

    log: Log
    segments: list[SealedSegment]
    dirty_range: DirtyRange

    @classmethod
    async def of(cls, log: Log, high_watermark: int, now_ms: int) -> Cleanable:
        """Find the segments that may be compacted.

        A segment may be compacted if it is durable, holds no records of open transactions, and is older than
        `min.compaction.lag.ms`.
        """
        config = log.config
        start = first_dirty(log.cleaned_offset, log.log_start_offset, log.log_end_offset)
        segments = below(log.segments.sealed, min(log.reader.last_stable_offset(high_watermark), log.recovery_point))
        dirty = [one for one in segments if one.next_offset > start]
        if config.min_compaction_lag_ms > 0:
            for at, segment in enumerate(dirty):
                await patiently(segment.require_date)
                if log.state.opening.largest_timestamp(segment) > now_ms - config.min_compaction_lag_ms:
                    segments = segments[: len(segments) - len(dirty) + at]
                    break
        overdue = config.max_compaction_lag_ms < LONG_MAX and await _is_older(
            dirty, now_ms - config.max_compaction_lag_ms
        )
        return cls(log, segments, dirty_range(segments, start, is_overdue=overdue))

    @property
    def is_due(self) -> bool:
        """Whether the dirty ratio exceeds `min.cleanable.dirty.ratio`, or `max.compaction.lag.ms` has passed."""
        return self.dirty_range.is_due(self.log.config.min_cleanable_dirty_ratio)


async def _is_older(segments: list[SealedSegment], time_ms: int) -> bool:
    """Whether the first batch of any of these segments is older than `time_ms`."""
    for segment in segments:
        if segment.size:
            await patiently(segment.require_loaded)
            header = await read_file(segment.file, 0, HEADER_BYTES)
            # Kafka dates a segment by the largest timestamp of its first batch as well (`getFirstBatchTimestamp`).
            if 0 < int.from_bytes(header[MAX_TIMESTAMP_FIELD], "big", signed=True) < time_ms:
                return True
    return False


class Cleaning:
    """A compaction of one log.

    After each read or write, it awaits `pace` with the number of bytes, which limits the rate.
    """

    def __init__(self, cleanable: Cleanable, worker: Worker, pace: Paced) -> None:
        self._log, self._segments = cleanable.log, cleanable.segments
        self._dirty_range, self._worker, self._pace = cleanable.dirty_range, worker, pace

    async def run(self, now_ms: int, keys_max: int) -> int:
        """Compact the log and return its new cleaned offset.

        Raise CorruptLog if a batch is damaged. Raise Interrupted or ApiError if the log changed or was deleted. Raise
        OSError if the disk refused. Raise WorkerGone if the worker process ended.
        """
        log, (start, end, *_) = self._log, self._dirty_range
        aborted = await log.reader.aborted_between(self._segments[0].base_offset, end)
        await self._ask(Begin(start, end, now_ms, log.config.delete_retention_ms, keys_max, aborted), type(None))
        clean = await self._note(start, end)
        cleaned = [one for one in self._segments if one.base_offset < clean]
        sizes = [Sizes(one.size, one.file_bytes(".index"), one.file_bytes(".timeindex")) for one in cleaned]
        for group in groups(cleaned, sizes, log.config.segment_bytes, log.config.segment_index_bytes):
            await self._compact(group)
        return clean

    async def _note(self, start: int, end: int) -> int:
        """Collect the keys of the dirty segments, and return the offset up to which the keys fit into memory."""
        for segment in self._segments:
            if segment.next_offset > start:
                async with aclosing(self._pieces(segment, Note, Noted)) as pieces:
                    async for noted in pieces:
                        if noted.is_full:
                            return int(noted.noted_offset) + 1
        return end

    async def _compact(self, group: list[SealedSegment]) -> None:
        require_sources(self._log.segments, group)
        # The last batch of a producer keeps its header, from which a start reads the sequence (`Round._must_stay`).
        producers = {
            one.producer_id: (one.batches[-1].last_offset if one.batches else -1, one.epoch)
            for one in self._log.producers.entries()
        }
        await self._ask(SegmentGroup(producers), type(None))
        cleaned = self._log.shrinker.begin_cleaned(group)
        try:
            for segment in group:
                async with aclosing(self._pieces(segment, Compact, Compacted)) as pieces:
                    async for compacted in pieces:
                        cleaned.add(compacted)
                        await self._pace(len(compacted.data))
            await self._log.shrinker.swap_in(cleaned)
        except BaseException:
            if not self._log.is_deleted:
                cleaned.discard()
            raise

    async def _pieces(
        self, segment: SealedSegment, request: type[Note | Compact], answer: Any
    ) -> AsyncGenerator[Any, None]:
        """Send a segment to the worker in pieces, and yield its answer for each piece.

        The worker stops within a piece when its key map is full.
        """
        position, piece_bytes = 0, PIECE_BYTES
        while position < segment.size:
            self._require(segment)
            size = min(piece_bytes, segment.size - position)
            outcome = await self._ask(request(await self._read(segment, position, size)), answer)
            await self._pace(size)
            # Damage in a segment that was removed during the read means nothing.
            if outcome.damage:
                self._require(segment)
            # If nothing was taken, the batch is larger than the piece, unless the segment ends here or no more keys
            # fit.
            if outcome.damage or not (
                outcome.taken or size < segment.size - position or getattr(outcome, "is_full", False)
            ):
                raise CorruptLog(
                    f"{self._log.directory}: segment {segment.base_offset}, from byte {position} on: "
                    f"{outcome.damage or 'a batch is cut off'}"
                )
            position += outcome.taken
            piece_bytes = PIECE_BYTES if outcome.taken else 2 * piece_bytes
            yield outcome

    async def _read(self, segment: SealedSegment, position: int, size: int) -> bytes:
        try:
            await patiently(segment.require_loaded)
            return bytes(await read_file(segment.file, position, size))
        except (CorruptLog, OSError):
            self._require(segment)
            raise

    def _require(self, segment: SealedSegment) -> None:
        """Raise Interrupted if the log was deleted or truncated, or is no longer compacted."""
        if self._log.is_deleted or not self._log.config.compacted or segment not in self._log.segments.sealed:
            raise Interrupted(f"segment {segment.base_offset} was removed, or its topic is no longer compacted")

    async def _ask(self, request: msgspec.Struct, answer: Any) -> Any:
        return msgspec.msgpack.decode(await self._worker.ask(msgspec.msgpack.encode(request)), type=answer)
