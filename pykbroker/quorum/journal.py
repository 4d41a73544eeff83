"""The log that the quorum writes: what it needs of one, so that `storage.Log` is one."""

from __future__ import annotations

from typing import Any, Protocol

from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.world.disk import Buffer, FileSlice

METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"
"""Where the metadata log lies, in the first log directory."""

BATCH_BYTES_MAX = 8 << 20
"""What Kafka's voters take in one batch."""


class MetadataJournal(Protocol):
    """The log of `__cluster_metadata-0`. Errors of the disk are OSError."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there; what came before is in a snapshot."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    def append_as_leader(self, data: Buffer, leader_epoch: int, /) -> Any:
        """Append one batch at the end, under this epoch: all of it or nothing."""

    def become_leader(self, leader_epoch: int, /) -> None:
        """Note where the epoch begins."""

    async def read_slowly(
        self, offset: int, bytes_max: int, upper_offset: int, /, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """Whole batches from the one that holds `offset`, ending below `upper_offset`."""

    async def flush(self) -> None:
        """Make all that was appended durable."""

    @property
    def size_bytes(self) -> int:
        """Of all batches that are still there."""

    def delete_records(self, offset: int, /) -> int:
        """The log starts at `offset` from now on."""

    async def retain(self, now_ms: int, high_watermark: int, /) -> None:
        """Let go of the segments that lie below the start of the log."""

    def take_doomed(self) -> list[str]:
        """The files that were let go since the last call, for the caller to remove."""

    async def close(self) -> None:
        """Flush and close the files."""
