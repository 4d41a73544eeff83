"""A partition as the coordinator sees it that keeps its records there. Matches `coordinator.journal.Journal`."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.replica.partition import Partition
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Buffer, FileSlice
from wire.error_codes import ErrorCode


class OwnLog:
    """Batches that this broker made itself: no producer's sequence, no client's codec is looked at."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads, or another one does."""
        return self._partition.leader_epoch

    @property
    def high_watermark(self) -> int:
        """All below is committed."""
        return self._partition.high_watermark

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition, and can serve it."""
        return self._partition.is_leader and self._partition.is_online

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there."""
        log = self._partition.log
        return 0 if log is None else log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        log = self._partition.log
        return 0 if log is None else log.log_end_offset

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that is taken."""
        log = self._partition.log
        return 0 if log is None else min(log.config.max_message_bytes, log.config.segment_bytes)

    @property
    def flush_due(self) -> bool:
        """Whether what was appended must be flushed before it may be acknowledged."""
        log = self._partition.log
        return log is not None and log.flush_due

    def append_own(self, batch: Buffer | Marker, now_ms: int, shown: Verification | None) -> int:
        """Append a batch, all of it or nothing; the offset after it. ApiError: it could not be."""
        if isinstance(batch, Marker):
            return self._partition.append_marker(batch, now_ms).last_offset + 1
        return self._partition.append_own(batch, shown).last_offset + 1

    async def flush(self) -> None:
        """Make all that was appended durable."""
        await self._partition.flush()

    async def wait_committed(self, offset: int) -> None:
        """Until the high watermark has reached `offset`."""
        await self._partition.wait_committed(offset)

    async def read_stored(self, offset: int, bytes_max: int) -> Buffer:
        """Whole batches from the one that holds `offset`, at least one, of all that is in the log.

        ApiError: its disk refuses, or it is damaged, and offline from now on.
        """
        log: Log = self._partition.require_leader()
        data = await self._partition.patiently(
            lambda: log.read(offset, bytes_max, log.log_end_offset, at_least_one=True)
        )
        try:
            return await data.file.read(data.offset, data.size) if isinstance(data, FileSlice) else data
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log cannot be read: {error.strerror}") from error
