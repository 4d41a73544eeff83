"""The move of a partition to another log directory of this broker (KIP-113), by a copy that replaces its log.

1. The copy replaces the log when it holds all records of the log and they are as durable as in the log. No other task
   runs during the replacement, and every later append is written to the copy only.
2. In the replacement, the directory of the log is renamed durably before the directory of the copy. A crash therefore
   never leaves two logs of the same name. A crash between the two renames leaves a complete copy in the log directory
   that the metadata names.
3. If a crash leaves both the log and its copy, the longer of the two is valid, and the shorter one is its prefix.
4. If retention or DeleteRecords deletes records before they are copied, the copy is emptied and begins again with the
   batch that holds the log start offset.
5. The copy is made in rounds: each round copies the records that were appended during the previous one. If a round
   copies more than half as many bytes as the previous round, clients' appends are throttled to half of the bytes
   copied. Once a round copies at most `HAND_OVER_BYTES_MAX`, appends wait for the last round and its fsync.
6. While the quota of copies is exceeded, copying waits. A quota never throttles clients: if it is below the rate of the
   producers, the copy does not catch up, as in Kafka. The replacement of the log does not wait for the quota, because
   appends and changes of the metadata wait for the replacement.
"""

from __future__ import annotations

import logging

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.throttle import Throttle
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Buffer, FileSlice, NotCached
from wire.error_codes import ErrorCode
from wire.records.batch import Batch

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16
"""The number of bytes copied at a time, on the event loop. A larger batch is copied whole."""
SHARE_S, STEP_BYTES_MAX = 0.004, 1 << 20
"""The limits on the time and the bytes of copying after which other tasks run."""
UNFLUSHED_BYTES_MAX, UNFLUSHED_SEGMENTS_MAX = 8 << 20, 16
"""The numbers of unflushed bytes and segments above which a copy is flushed.

They bound its open files and its dirty pages.
"""
HAND_OVER_BYTES_MAX = 1 << 20
"""The number of bytes in the last round up to which a copy counts as nearly complete."""
LEFT_BYTES_MAX = 4 * CHUNK_BYTES
"""The number of bytes that may be copied, on the event loop, between the last round and the replacement."""
NO_TIME_MS = 0
"""A time at which retention finds no segment too old."""
QUOTA_WAIT_MS_MAX = 1000
"""The time after which a copy that waits for the quota looks at the quota again, since its limit may have changed."""
READ_TRIES_MAX = 10
"""The number of attempts to read the log before the move fails. Reads may fail while the cleaner replaces segments."""


class Move:
    """A move: a partition, the copy of its log, and the log directory of the copy.

    `copied_bytes` counts the bytes copied since the broker started. `was_limited` says whether the last round waited
    for the quota, which it does unless `is_urgent`.
    """

    __slots__ = (
        "_quota",
        "_refusals",
        "_throttle",
        "_unflushed_bytes",
        "copied_bytes",
        "directory",
        "has_ended",
        "is_urgent",
        "log",
        "partition",
        "topic_id",
        "was_limited",
    )

    def __init__(
        self, partition: Partition, topic_id: bytes, directory: LogDirectory, log: Log, quota: ReplicationQuota
    ) -> None:
        self.partition, self.topic_id, self.directory, self.log = partition, topic_id, directory, log
        self._quota, self.was_limited = quota, False
        self.is_urgent = self.has_ended = False
        self.copied_bytes = self._unflushed_bytes = self._refusals = 0
        self._throttle: Throttle | None = None

    @property
    def key(self) -> TopicPartition:
        return self.partition.key

    async def catch_up(self) -> int:
        """Copy all records that the log holds now, flush the copy, and return the number of bytes copied.

        Do less if the move ends meanwhile.

        Raise ApiError if the log cannot be read. Raise OSError if the copy cannot be written.
        """
        begun, end = self.copied_bytes, self._source().log_end_offset
        self.was_limited = False
        while self.log.log_end_offset < end and not self.has_ended:
            await self._wait_for_quota()
            if not self.has_ended:
                await self._step()
            await trio.lowlevel.checkpoint()
        if not self.has_ended:
            await self._flush()
        return self.copied_bytes - begun

    async def _wait_for_quota(self) -> None:
        """Wait while the quota of copies is exceeded."""
        while (wait_ms := self._quota.wait_ms(self.partition.broker.now_ms)) and not (self.is_urgent or self.has_ended):
            self.was_limited = True
            await trio.sleep(min(wait_ms, QUOTA_WAIT_MS_MAX) / 1000)

    async def _step(self) -> None:
        """Copy for at most `SHARE_S` seconds."""
        begun, ends_at = self.copied_bytes, trio.current_time() + SHARE_S
        while self.log.log_end_offset < self._source().log_end_offset:
            await self._copy_chunk(self._source())
            if self.copied_bytes - begun >= STEP_BYTES_MAX or trio.current_time() >= ends_at:
                break
        self._unflushed_bytes += self.copied_bytes - begun
        self._quota.record(self.copied_bytes - begun, self.partition.broker.now_ms)
        if self._throttle is not None:
            self._throttle.note_copied(self.copied_bytes - begun)
        if self._unflushed_bytes >= UNFLUSHED_BYTES_MAX or len(self.log.segments.unsynced) >= UNFLUSHED_SEGMENTS_MAX:
            await self._flush()

    async def _copy_chunk(self, log: Log) -> None:
        """Copy the next batches, unless retention deletes them before they are read."""
        log_start = log.log_start_offset
        try:
            with self.partition.errors():
                start, data = await patiently(self._next)
        except ApiError:
            self._refusals += 1
            if self.partition.is_online and (log.log_start_offset > log_start or self._refusals < READ_TRIES_MAX):
                return
            raise
        self._refusals = 0
        mine = self.log
        # An empty copy, or one that ends below the log start, begins anew at the log end below.
        if not data and mine.size_bytes and start == mine.log_end_offset:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"compaction left no record from offset {start} to the log end; append a record and move it again",
            )
        first = Batch.read(data).base_offset if data else log.log_end_offset
        # See 4. A gap above `start` was left by compaction, and `append_stored` takes it.
        if first < mine.log_end_offset or mine.log_end_offset < start or not data:
            await mine.shrinker.truncate_fully_and_start_at(first, max(first, log.log_start_offset))
        mine.append_stored(data)
        self.copied_bytes += len(data)

    def _next(self) -> tuple[int, Buffer]:
        """Return (the offset at which the copy continues, batches from the one that holds this offset).

        Raise NotCached if the batches must be read from the disk first.
        """
        log = self._source()
        start = max(self.log.log_end_offset, log.log_start_offset)
        data = log.reader.read(start, CHUNK_BYTES, log.log_end_offset, at_least_one=True)
        return start, data.file.read_nowait(data.offset, data.size) if isinstance(data, FileSlice) else data

    async def _flush(self) -> None:
        """Make the copy durable, and delete from it the records that the log has deleted."""
        log, mine = self._source(), self.log
        await mine.flush()
        self._unflushed_bytes = 0
        if mine.log_start_offset < log.log_start_offset <= mine.log_end_offset:
            mine.delete_records(log.log_start_offset)
            await mine.retain(NO_TIME_MS, log.log_start_offset)
        await self.directory.futures.remove_deleted(self.key)

    def throttle(self) -> None:
        """Limit clients' appends to half of the bytes that are copied."""
        if self._throttle is None:
            logger.info(
                "%s: the copy in %s does not catch up with the producers; throttling them until it does",
                self.key,
                self.directory.path,
            )
            self._throttle = self.partition.throttle = Throttle()

    def pause(self) -> None:
        """Stop clients' appends until `end_throttle` is called."""
        self._throttle = self.partition.throttle = self._throttle or Throttle()
        self._throttle.pause()

    def end(self) -> None:
        """End the move without a result."""
        self.has_ended = True
        self.end_throttle()

    def end_throttle(self) -> None:
        """End the limit on clients' appends."""
        if self._throttle is not None:
            if self.partition.throttle is self._throttle:
                self.partition.throttle = None
            self._throttle.end()
            self._throttle = None

    def is_level(self) -> bool:
        """Whether the copy may replace the log now.

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
        """Replace the partition's log by the copy, and return the directory of the old log.

        If ApiError is raised, nothing changed.
        """
        partition, log, before = self.partition, self._source(), self.partition.directory
        try:
            before.release(self.key)
        except OSError as refusal:
            before.fail(refusal)
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log in {before.path} cannot be renamed: {refusal}"
            ) from refusal
        self.log.take_over(log)
        partition.log, partition.directory = self.directory.accept(self.key, self.topic_id), self.directory
        return before

    def _source(self) -> Log:
        """Return the log that is copied. Raise ApiError if the log is offline."""
        log = self.partition.log
        if log is None or not self.partition.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log is offline")
        return log
