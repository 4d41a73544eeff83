"""The log of a coordinator's state machine: one partition, written in one leader epoch of this broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from pykbroker.coordinator.batches import Batches, FramedBatch, opened
from pykbroker.coordinator.client_errors import client_error
from pykbroker.coordinator.partition_log import PartitionLog
from pykbroker.core.coordinator.record import LogRecord, StoredRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import Steps
from pykbroker.machines.log import BetweenRequests, LogLost
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import Batch, batches

LOAD_BYTES = 256 << 10
"""The bytes that one read of the log returns while a coordinator loads."""
LOST = frozenset((ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER))
"""Errors after which the contents of the log are unknown, or another broker leads the partition."""


class CoordinatorLog:
    """The log of one coordinator partition. It matches `machines.log.MachineLog` and `machines.loader.StoredLog`."""

    def __init__(self, log: PartitionLog, framing: Batches, off_loop: OffLoop) -> None:
        self._log, self._framing, self._off_loop = log, framing, off_loop
        self.leader_epoch = log.leader_epoch
        self.closed = False

    @property
    def is_leader(self) -> bool:
        return self._log.is_leader

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""
        return self._log.log_end_offset

    def require_open(self) -> None:
        """Raise ApiError NOT_COORDINATOR unless this broker still leads the partition in the same leader epoch."""
        if self.closed or not self._log.leads(self.leader_epoch):
            raise not_coordinator()

    def frame(self, records: Sequence[LogRecord], wall_ms: int, *, split: bool) -> Steps[list[FramedBatch]]:
        """Return the records as batches.

        With `split`, a batch ends before it would exceed the topic's max.message.bytes.

        Raise ApiError if a batch would exceed that limit all the same.
        """
        return self._framing.write(records, wall_ms, self._log.batch_bytes_max, split=split)

    def append(self, batch: bytes | Marker, wall_ms: int, verification: Verification | None, *, is_first: bool) -> int:
        """Append the batch and return the offset after it.

        Raise ApiError if the log refuses the batch: for a marker, whose writer is a broker, the log's own error, and
        for records the error that clients of a coordinator receive for it.

        Raise LogLost if the error is one of `LOST`, or if an earlier batch of the same decision was already appended.
        """
        try:
            return self._log.append_own(batch, wall_ms, verification)
        except ApiError as error:
            if error.code not in LOST and is_first:
                if isinstance(batch, Marker):
                    raise
                raise client_error(error) from error
            raise LogLost(str(error)) from error

    def entries(self, records: Sequence[LogRecord], end_offset: int) -> Iterable[Entry[StoredRecord]]:
        """Return the records of a batch that ends at `end_offset`."""
        base_offset = end_offset - len(records)
        return [
            Entry(offset, one, one.producer_id, one.producer_epoch) for offset, one in enumerate(records, base_offset)
        ]

    def is_committed(self, offset: int) -> bool:
        """Whether all records below `offset` are committed and no flush is due."""
        return self._log.is_committed(offset)

    async def commit(self, offset: int, replayed: int, between: BetweenRequests[Any]) -> int:
        """Flush the log if that is due, then wait for the high watermark.

        Raise LogLost if the disk or the leadership is lost.
        """
        try:
            if self._log.flush_due:
                await self._log.flush()
            await self._log.wait_committed(offset)
        except ApiError as error:
            raise LogLost(str(error)) from error
        return min(replayed, self._log.high_watermark)

    async def read_batches(self, offset: int) -> Collection[Batch]:
        """Return batches, beginning with the batch that contains `offset`."""
        return deque(batches(await self._log.read_stored(offset, LOAD_BYTES)))

    async def open(self, found: Collection[Batch]) -> list[bytes | DecodeError]:
        """Return the decompressed records of the first batches. A thread decompresses them off the event loop."""
        if any(batch.codec for batch in found):
            return await self._off_loop(opened, tuple(found))
        return opened(found)

    def read_entries(self, batch: Batch, data: bytes, offset: int) -> Iterator[Entry[StoredRecord]]:
        """Yield the records of a batch from `offset` on. Raise DecodeError if the batch is damaged."""
        return self._framing.read(batch, data, offset)


def not_coordinator() -> ApiError:
    """Return the error NOT_COORDINATOR, which makes a client look for the coordinator again."""
    return ApiError(ErrorCode.NOT_COORDINATOR)
