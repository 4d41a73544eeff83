"""An in-memory log for coordinators; the test decides when it commits, loses leadership or fails."""

from __future__ import annotations

import trio
from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.world.disk import Buffer
from wire.error_codes import ErrorCode
from wire.records.batch import batches
from wire.records.builder import sealed
from wire.records.control import transaction_marker


class MemoryLog:
    """An in-memory log that matches the Protocol `PartitionLog`. If `held` is true, only the method `commit` commits
    records.
    """

    def __init__(self, *, held: bool = False) -> None:
        self.leader_epoch, self.is_leader, self.held = 0, True, held
        self.log_start_offset = self.log_end_offset = self.high_watermark = 0
        self.batch_bytes_max = 1 << 20
        self.flush_due = False
        self.flushes = 0
        self.stored: list[bytes] = []
        self.error: ApiError | None = None
        self.gate: trio.Event | None = None
        self.flushing: trio.Event | None = None  # A flush waits for this event, as it would for a thread.
        self._advanced = trio.Event()

    def leads(self, leader_epoch: int) -> bool:
        return self.is_leader and self.leader_epoch == leader_epoch

    def is_committed(self, offset: int) -> bool:
        return self.high_watermark >= offset and not self.flush_due

    def append_own(self, batch: Buffer | Marker, now_ms: int, verification: Verification | None) -> int:
        if self.error is not None:
            raise self.error
        data = (
            transaction_marker(
                commit=batch.commit,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                coordinator_epoch=batch.coordinator_epoch,
                timestamp=now_ms,
            )
            if isinstance(batch, Marker)
            else batch
        )
        (header,) = batches(data)
        self.stored.append(sealed(replace(header, base_offset=self.log_end_offset), header.payload))
        self.log_end_offset += header.count
        if not self.held:
            self.commit()
        return self.log_end_offset

    def commit(self) -> None:
        self.high_watermark = self.log_end_offset
        self._wake()

    def resign(self) -> None:
        self.is_leader = False
        self._wake()

    def _wake(self) -> None:
        self._advanced.set()
        self._advanced = trio.Event()

    async def flush(self) -> None:
        self.flushes += 1
        await trio.lowlevel.checkpoint()
        if self.flushing is not None:
            with trio.CancelScope(shield=True):
                await self.flushing.wait()
        if self.error is not None:
            raise self.error
        self.flush_due = False

    async def wait_committed(self, offset: int) -> None:
        while self.high_watermark < offset:
            if not self.is_leader:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await self._advanced.wait()

    async def read_stored(self, offset: int, bytes_max: int) -> bytes:
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return next(data for data in self.stored for batch in batches(data) if batch.last_offset >= offset)
