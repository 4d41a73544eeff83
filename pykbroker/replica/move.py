"""A partition on its way to another log directory of this broker (KIP-113): a copy that grows until it can take over.

1. The copy takes over when it holds all that the log holds, and as durably. That is one step between two awaits: what
   is appended after it goes to the copy alone.
2. The log's directory loses its name in that step, durably before the copy gets it. So no crash leaves two logs of one
   name, and one that leaves none leaves the copy, which is whole, and which the metadata says is the one.
3. Of a log and its copy that are both there after a crash, the longer one is right: one begins as the other does.
4. What retention or DeleteRecords deletes before it is copied is not missed: the copy begins anew where the log does.
5. The copy becomes level: clients' appends are throttled to half of what is copied, from the first round that leaves
   more than half of what the one before it left. Once a round copies no more than `HAND_OVER_BYTES_MAX`, appends wait
   for the last round, of what came meanwhile, and for its fsync.
"""

from __future__ import annotations

import logging

import trio

from pykbroker.core.errors import ApiError
from pykbroker.replica.partition import Partition
from pykbroker.replica.throttle import Throttle
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Buffer, FileSlice, NotCached
from wire.error_codes import ErrorCode
from wire.records.batch import Batch

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16
"""Copied in one go, on the loop; a larger batch goes whole."""
SHARE_S, STEP_BYTES_MAX = 0.004, 1 << 20
"""How long, and how much, a step copies before others have their turn."""
UNFLUSHED_BYTES_MAX, UNFLUSHED_SEGMENTS_MAX = 8 << 20, 16
"""A copy that has more of either is flushed: it keeps no more files open, and no more of the page cache dirty."""
HAND_OVER_BYTES_MAX = 1 << 20
"""A copy that lacked no more than this before its last flush is nearly level."""
LEFT_BYTES_MAX = 4 * CHUNK_BYTES
"""Copied in the step in which the copy takes over, between two awaits."""
NO_TIME_MS = 0
"""As the time at which a log's segments are looked at: none is too old."""
READ_TRIES_MAX = 10
"""How often in a row the log may refuse to be read, as one may whose segments are compacted meanwhile."""


class Move:
    """The copy of one partition, and the directory that it is in. `copied_bytes`: since this process began."""

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
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.partition.topic, self.partition.index

    async def catch_up(self) -> int:
        """Copy what the log holds now, and make it durable; answers how many bytes were copied.

        ApiError: the log cannot be read. OSError: the copy cannot be written.
        """
        begun, end = self.copied_bytes, self._source().log_end_offset
        while self.log.log_end_offset < end:
            await self._step()
            await trio.lowlevel.checkpoint()
        await self._flush()
        return self.copied_bytes - begun

    async def _step(self) -> None:
        """Copy for a share of the loop's time."""
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
        """Copy the next batches, if they have not been deleted before they could be read."""
        log_start = log.log_start_offset
        try:
            start, data = await self.partition.patiently(self._next)
        except ApiError:
            self._refusals += 1
            if self.partition.is_online and (log.log_start_offset > log_start or self._refusals < READ_TRIES_MAX):
                return
            raise
        self._refusals = 0
        mine = self.log
        if not data and mine.size_bytes and start == mine.log_end_offset:  # else what was to be copied is deleted
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"compaction left nothing from offset {start} on to its end; move it again once something was appended",
            )
        first = Batch.read(data).base_offset if data else log.log_end_offset
        if first < mine.log_end_offset or mine.log_end_offset < start or not data:
            await mine.shrinker.truncate_fully_and_start_at(first)
        mine.append_stored(data)
        self.copied_bytes += len(data)

    def _next(self) -> tuple[int, Buffer]:
        """(the offset at which the copy goes on, batches from the one that holds it on). NotCached."""
        log = self._source()
        start = max(self.log.log_end_offset, log.log_start_offset)
        data = log.read(start, CHUNK_BYTES, log.log_end_offset, at_least_one=True)
        return start, data.file.read_nowait(data.offset, data.size) if isinstance(data, FileSlice) else data

    async def _flush(self) -> None:
        """Make durable what was copied, and let go of what the log has deleted since."""
        log, mine = self._source(), self.log
        await mine.flush()
        self._unflushed_bytes = 0
        if mine.log_start_offset < log.log_start_offset <= mine.log_end_offset:
            mine.delete_records(log.log_start_offset)
            await mine.retain(NO_TIME_MS, log.log_start_offset)
        await self.directory.futures.remove_doomed(self.key)

    def throttle(self) -> None:
        """Let clients append no more than half of what is copied, from now on."""
        if self._throttle is None:
            logger.info(
                "%s-%d: its copy in %s does not catch up with its producers, which are throttled",
                *self.key,
                self.directory.path,
            )
            self._throttle = self.partition.throttle = Throttle()

    def pause(self) -> None:
        """Let clients append nothing, until `end_throttle`."""
        self._throttle = self.partition.throttle = self._throttle or Throttle()
        self._throttle.pause()

    def end_throttle(self) -> None:
        """Let clients append as they like."""
        if self._throttle is not None:
            if self.partition.throttle is self._throttle:
                self.partition.throttle = None
            self._throttle.end()
            self._throttle = None

    def is_level(self) -> bool:
        """Whether the copy may take over; copies what little the broker itself has appended since the last flush."""
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
        """The copy is the partition's log from now on; answers where that was. ApiError: nothing changed."""
        partition, log, before = self.partition, self._source(), self.partition.directory
        try:
            before.release(*self.key)
        except OSError as refusal:
            before.fail(refusal)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{before.path} refuses to rename it: {refusal}") from refusal
        self.log.take_over(log)
        partition.log, partition.directory = self.directory.accept(*self.key, self.topic_id), self.directory
        return before

    def _source(self) -> Log:
        """The log that is copied. ApiError: it has gone offline."""
        log = self.partition.log
        if log is None or not self.partition.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "it has gone offline")
        return log
