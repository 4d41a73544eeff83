"""The move of a partition to another log directory of this broker (KIP-113), by a copy that replaces the log.

1. The copy replaces the log when it holds all records of the log, and as durably. The replacement is one step between
   two awaits; every later append goes to the copy alone.
2. In that step, the log's directory is renamed durably before the copy's directory is. A crash therefore never leaves
   two logs of one name. A crash between the two renames leaves a complete copy, to which the metadata points.
3. If a crash leaves both the log and its copy, the longer of the two is valid, and the shorter one is its prefix.
4. Records that retention or DeleteRecords deletes before they are copied are skipped: the copy begins anew at the log
   start offset.
5. The copy catches up with any producer. Once a round copies more than half as much as the previous round, clients'
   appends are throttled to half of the bytes copied. Once a round copies `HAND_OVER_BYTES_MAX` or less, appends wait
   for the last round and for its fsync.
"""

from __future__ import annotations

import logging

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition import Partition
from pykbroker.replica.throttle import Throttle
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Buffer, FileSlice, NotCached
from wire.error_codes import ErrorCode
from wire.records.batch import Batch

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16
"""Bytes copied at a time, on the event loop. A larger batch is copied whole."""
SHARE_S, STEP_BYTES_MAX = 0.004, 1 << 20
"""Limits of one step, after which other tasks run."""
UNFLUSHED_BYTES_MAX, UNFLUSHED_SEGMENTS_MAX = 8 << 20, 16
"""A copy with more unflushed bytes or segments is flushed. This bounds its open files and its dirty page cache."""
HAND_OVER_BYTES_MAX = 1 << 20
"""A copy is nearly level with its log when its last round copied at most this many bytes."""
LEFT_BYTES_MAX = 4 * CHUNK_BYTES
"""Bytes that may be copied between the last round and the replacement, on the event loop."""
NO_TIME_MS = 0
"""A time at which retention finds no segment too old."""
READ_TRIES_MAX = 10
"""Attempts to read the log before the move fails. Reads may fail while the cleaner replaces segments."""


class Move:
    """A partition, the copy of its log, and the directory of the copy.

    `copied_bytes` counts since this process began.
    """

    __slots__ = (
        "_refusals",
        "_throttle",
        "_unflushed_bytes",
        "copied_bytes",
        "directory",
        "log",
        "partition",
        "topic_id",
    )

    def __init__(self, partition: Partition, topic_id: bytes, directory: LogDirectory, log: Log) -> None:
        self.partition, self.topic_id, self.directory, self.log = partition, topic_id, directory, log
        self.copied_bytes = self._unflushed_bytes = self._refusals = 0
        self._throttle: Throttle | None = None

    @property
    def key(self) -> TopicPartition:
        """Return topic and partition."""
        return self.partition.key

    async def catch_up(self) -> int:
        """Copy all records that the log holds now, make the copy durable, and return the number of bytes copied.

        ApiError: the log cannot be read. OSError: the copy cannot be written.
        """
        begun, end = self.copied_bytes, self._source().log_end_offset
        while self.log.log_end_offset < end:
            await self._step()
            await trio.lowlevel.checkpoint()
        await self._flush()
        return self.copied_bytes - begun

    async def _step(self) -> None:
        """Copy for at most `SHARE_S` seconds."""
        begun, ends_at = self.copied_bytes, trio.current_time() + SHARE_S
        while self.log.log_end_offset < self._source().log_end_offset:
            await self._copy_chunk(self._source())
            if self.copied_bytes - begun >= STEP_BYTES_MAX or trio.current_time() >= ends_at:
                break
        self._unflushed_bytes += self.copied_bytes - begun
        if self._throttle is not None:
            self._throttle.note_copied(self.copied_bytes - begun)
        if self._unflushed_bytes >= UNFLUSHED_BYTES_MAX or len(self.log.segments.unsynced) >= UNFLUSHED_SEGMENTS_MAX:
            await self._flush()

    async def _copy_chunk(self, log: Log) -> None:
        """Copy the next batches, unless they are deleted before they are read."""
        log_start = log.log_start_offset
        try:
            start, data = await self.partition.reader.patiently(self._next)
        except ApiError:
            self._refusals += 1
            if self.partition.is_online and (log.log_start_offset > log_start or self._refusals < READ_TRIES_MAX):
                return
            raise
        self._refusals = 0
        mine = self.log
        if not data and mine.size_bytes and start == mine.log_end_offset:  # otherwise the log deleted what was next
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"compaction left no record from offset {start} to the log end; append a record and move it again",
            )
        first = Batch.read(data).base_offset if data else log.log_end_offset
        if first < mine.log_end_offset or mine.log_end_offset < start or not data:
            await mine.shrinker.truncate_fully_and_start_at(first)
        mine.append_stored(data)
        self.copied_bytes += len(data)

    def _next(self) -> tuple[int, Buffer]:
        """Return (the offset at which the copy continues, batches from the one that holds this offset).

        NotCached: the batches must be read from the disk first.
        """
        log = self._source()
        start = max(self.log.log_end_offset, log.log_start_offset)
        data = log.read(start, CHUNK_BYTES, log.log_end_offset, at_least_one=True)
        return start, data.file.read_nowait(data.offset, data.size) if isinstance(data, FileSlice) else data

    async def _flush(self) -> None:
        """Make the copy durable, and delete from it the records that the log has deleted."""
        log, mine = self._source(), self.log
        await mine.flush()
        self._unflushed_bytes = 0
        if mine.log_start_offset < log.log_start_offset <= mine.log_end_offset:
            mine.delete_records(log.log_start_offset)
            await mine.retain(NO_TIME_MS, log.log_start_offset)
        await self.directory.futures.remove_doomed(self.key)

    def throttle(self) -> None:
        """Limit clients' appends to half of the bytes copied."""
        if self._throttle is None:
            logger.info(
                "%s: the copy in %s does not catch up with the producers; throttling them until it does",
                self.key,
                self.directory.path,
            )
            self._throttle = self.partition.throttle = Throttle()

    def pause(self) -> None:
        """Stop clients' appends until `end_throttle`."""
        self._throttle = self.partition.throttle = self._throttle or Throttle()
        self._throttle.pause()

    def end_throttle(self) -> None:
        """End the limit on clients' appends."""
        if self._throttle is not None:
            if self.partition.throttle is self._throttle:
                self.partition.throttle = None
            self._throttle.end()
            self._throttle = None

    def is_level(self) -> bool:
        """Whether the copy may replace the log.

        The few batches that the broker itself appended since the last flush are copied in this call.
        """
        log, mine = self._source(), self.log
        begun = self.copied_bytes
        try:
            while (
                log.log_start_offset <= mine.log_end_offset < log.log_end_offset
                and self.copied_bytes - begun < LEFT_BYTES_MAX
            ):
                _, data = self._next()
                mine.append_stored(data)
                self.copied_bytes += len(data)
        except NotCached:
            return False
        return mine.log_end_offset == log.log_end_offset and mine.recovery_point >= log.recovery_point

    def take_over(self) -> LogDirectory:
        """Replace the partition's log by the copy; return the directory of the old log. ApiError: nothing changed."""
        partition, log, before = self.partition, self._source(), self.partition.directory
        try:
            before.release(self.key)
        except OSError as refusal:
            before.fail(refusal)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{before.path} refuses to rename it: {refusal}") from refusal
        self.log.take_over(log)
        partition.log, partition.directory = self.directory.accept(self.key, self.topic_id), self.directory
        return before

    def _source(self) -> Log:
        """Return the log that is copied. ApiError: the log is offline."""
        log = self.partition.log
        if log is None or not self.partition.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log is offline")
        return log
