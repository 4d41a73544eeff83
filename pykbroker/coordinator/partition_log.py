"""The log of one partition of a coordinator's topic, as a Protocol. `OwnLog` of `replica` matches it."""

from __future__ import annotations

from typing import Protocol

from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.world.disk import Buffer


class PartitionLog(Protocol):
    """The log of one partition. A refused append raises ApiError: NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR."""

    @property
    def leader_epoch(self) -> int:
        """Return the partition's leader epoch, whichever broker leads it."""

    @property
    def high_watermark(self) -> int:
        """Return the offset below which all records are committed."""

    @property
    def is_leader(self) -> bool: ...

    def leads(self, leader_epoch: int) -> bool:
        """Whether this broker leads the partition in this epoch."""

    def is_committed(self, offset: int) -> bool:
        """Whether all records below `offset` are committed and no flush is due."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""

    @property
    def batch_bytes_max(self) -> int:
        """Return the size of the largest batch that can be appended."""

    @property
    def flush_due(self) -> bool:
        """Whether appended records must be flushed before they may be acknowledged."""

    def append_own(self, batch: Buffer | Marker, now_ms: int, verification: Verification | None) -> int:
        """Append a batch that this broker built, as a whole or not at all, and return the offset after it.

        `verification` is the proof from `core.log.verification` that the batch may begin a transaction.
        """

    async def flush(self) -> None:
        """Make all appended records durable."""

    async def wait_committed(self, offset: int) -> None:
        """Wait until the high watermark has reached `offset`."""

    async def read_stored(self, offset: int, bytes_max: int) -> Buffer:
        """Return at least one whole batch, beginning with the batch that contains `offset`.

        The batch may be above the high watermark.
        """
