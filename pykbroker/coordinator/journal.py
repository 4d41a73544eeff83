"""The log that a machine's records go into: what the shell needs of one, so that a partition of `replica` is one."""

from __future__ import annotations

from typing import Protocol

from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.world.disk import Buffer


class CoordinatorJournal(Protocol):
    """One partition, led here. `ApiError` says what is refused: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""

    @property
    def leader_epoch(self) -> int:
        """Return the epoch of the partition's leader, this broker or another."""

    @property
    def high_watermark(self) -> int:
        """Return the offset below which everything is committed."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""

    def leads(self, leader_epoch: int) -> bool:
        """Whether this broker leads the partition in this epoch."""

    def is_committed(self, offset: int) -> bool:
        """Whether everything below `offset` is committed, and needs no flush before it is acknowledged."""

    @property
    def log_start_offset(self) -> int:
        """Return the first offset of the log."""

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""

    @property
    def batch_bytes_max(self) -> int:
        """Return the size of the largest batch that can be appended."""

    @property
    def flush_due(self) -> bool:
        """Whether what was appended must be flushed before it may be acknowledged."""

    def append_own(self, batch: Buffer | Marker, now_ms: int, verification: Verification | None) -> int:
        """Append a batch that this broker made, all of it or nothing; the offset after it.

        `verification`: what lets it begin a transaction here, as `core.log.verification` has it.
        """

    async def flush(self) -> None:
        """Make all that was appended durable."""

    async def wait_committed(self, offset: int) -> None:
        """Wait until the high watermark has reached `offset`."""

    async def read_stored(self, offset: int, bytes_max: int) -> Buffer:
        """Return whole batches from the one that holds `offset`, at least one, also above the high watermark."""
