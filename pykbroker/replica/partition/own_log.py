"""The log of a coordinator's partition. It matches the Protocol `coordinator.partition_log.PartitionLog`."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.replica.partition.partition import Partition
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Buffer, FileSlice
from wire.error_codes import ErrorCode


class OwnLog:
    """A log to which only this broker appends batches. Sequence numbers and codecs are not validated."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch of the partition, also if another broker leads it."""
        return self._partition.leader_epoch

    @property
    def high_watermark(self) -> int:
        """Return the offset below which all records are committed."""
        return self._partition.high_watermark

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition and its log is online."""
        return self._partition.is_leader and self._partition.is_online

    def leads(self, leader_epoch: int) -> bool:
        """Whether this broker leads the partition in this epoch, and its log is online."""
        return self.is_leader and self._partition.leader_epoch == leader_epoch

    def is_committed(self, offset: int) -> bool:
        """Whether everything below `offset` is committed, and needs no flush before it is acknowledged."""
        return self._partition.high_watermark >= offset and not self._partition.flush_due

    @property
    def log_start_offset(self) -> int:
        """Return the log start offset, 0 while the log is offline."""
        log = self._partition.log
        return 0 if log is None else log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Return the log end offset, 0 while the log is offline."""
        log = self._partition.log
        return 0 if log is None else log.log_end_offset

    @property
    def batch_bytes_max(self) -> int:
        """Return the size of the largest batch that may be appended."""
        log = self._partition.log
        return 0 if log is None else min(log.config.max_message_bytes, log.config.segment_bytes)

    @property
    def flush_due(self) -> bool:
        """Whether appended batches must be flushed before they are acknowledged."""
        return self._partition.flush_due

    def append_own(self, batch: Buffer | Marker, now_ms: int, verification: Verification | None) -> int:
        """Append a whole batch, and return the offset after it. If ApiError is raised, nothing was appended."""
        if isinstance(batch, Marker):
            return self._partition.append_marker(batch, now_ms).last_offset + 1
        return self._partition.append_own(batch, verification).last_offset + 1

    async def flush(self) -> None:
        """Make all appended batches durable."""
        await self._partition.flush()

    async def wait_committed(self, offset: int) -> None:
        """Wait until the high watermark has reached `offset`."""
        await self._partition.wait_committed(offset)

    async def read_stored(self, offset: int, bytes_max: int) -> Buffer:
        """Return whole batches, at least one, from the batch that holds `offset` on, up to the log end offset.

        Raise ApiError if the read fails, or if the log is damaged and goes offline.
        """
        log: Log = self._partition.require_leader()
        with self._partition.errors():
            data = await patiently(lambda: log.reader.read(offset, bytes_max, log.log_end_offset, at_least_one=True))
        try:
            return await data.file.read(data.offset, data.size) if isinstance(data, FileSlice) else data
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log cannot be read: {error.strerror}") from error
