"""A partition on its way to another log directory of this broker (KIP-113): a copy that grows until it can take over.

1. The copy takes over when it holds all that the log holds, and as durably. That is one step between two awaits: what
   is appended after it goes to the copy alone.
2. The log's directory loses its name in that step, durably before the copy gets it. So no crash leaves two logs of one
   name, and one that leaves none leaves the copy, which is whole, and which the metadata says is the one.
3. Of a log and its copy that are both there after a crash, the longer one is right: one begins as the other does.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.replica.partition import Partition
from pykbroker.storage.log import Log
from pykbroker.storage.log_directory import LogDirectory
from pykbroker.world.disk import Buffer, FileSlice, NotCached
from wire.error_codes import ErrorCode
from wire.records.batch import Batch

CHUNK_BYTES = 1 << 18
"""Copied in one go, on the loop."""


class Move:
    """The copy of one partition, and the directory that it is in."""

    __slots__ = ("directory", "log", "partition", "topic_id")

    def __init__(self, partition: Partition, topic_id: bytes, directory: LogDirectory, log: Log) -> None:
        self.partition, self.topic_id, self.directory, self.log = partition, topic_id, directory, log

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.partition.topic, self.partition.index

    async def copy(self) -> bool:
        """Copy some more; False when nothing was left. ApiError: the log cannot be read. OSError: nor the copy written.

        What was deleted before it could be copied is not missed; the copy may then have to begin anew.
        """
        log, mine = self._source(), self.log
        start, end = max(mine.log_end_offset, log.log_start_offset), log.log_end_offset
        if mine.log_end_offset == end:
            return False
        data = await self.partition.patiently(lambda: log.read(start, CHUNK_BYTES, end, at_least_one=True))
        if isinstance(data, FileSlice):
            data = await data.file.read(data.offset, data.size)
        first = Batch.read(data).base_offset if data else start
        if first < mine.log_end_offset or mine.log_end_offset < start:
            await mine.truncate_fully_and_start_at(first)
        mine.append_stored(data)
        if mine.has_rolled:
            await mine.flush()
        return True

    def is_level(self) -> bool:
        """Whether the copy may take over; copies what is left, if that can be had at once."""
        log, mine = self._source(), self.log
        try:
            while mine.log_end_offset < log.log_end_offset:
                start = mine.log_end_offset
                mine.append_stored(at_once(log.read(start, CHUNK_BYTES, log.log_end_offset, at_least_one=True)))
        except NotCached:
            return False
        return mine.log_end_offset == log.log_end_offset and mine.recovery_point >= log.recovery_point

    def take_over(self) -> LogDirectory:
        """The copy is the partition's log from now on; answers where that was. OSError: nothing changed."""
        partition, log, before = self.partition, self._source(), self.partition.directory
        before.release(*self.key)
        self.log.succeed(log)
        partition.log, partition.directory = self.directory.accept(*self.key, self.topic_id), self.directory
        return before

    def _source(self) -> Log:
        """The log that is copied. ApiError: it has gone offline."""
        log = self.partition.log
        if log is None or not self.partition.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "it has gone offline")
        return log


def at_once(data: Buffer | FileSlice) -> Buffer:
    """What a log's `read` answered, in memory. NotCached."""
    return data.file.read_nowait(data.offset, data.size) if isinstance(data, FileSlice) else data
