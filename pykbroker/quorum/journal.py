"""The log that the quorum writes: what it needs of one, so that `storage.Log` is one."""

from __future__ import annotations

from typing import Any, Protocol

from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.world.disk import Buffer, FileSlice

METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"
"""The directory of the metadata log, in the first log directory."""

BATCH_BYTES_MAX = 8 << 20
"""The largest batch that Kafka's voters accept."""


class MetadataJournal(Protocol):
    """The log of `__cluster_metadata-0`. Errors of the disk are OSError."""

    @property
    def log_start_offset(self) -> int:
        """Return the first offset of the log. A snapshot contains everything before it."""

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""

    def append_as_leader(self, data: Buffer, leader_epoch: int, /) -> Any:
        """Append one batch at the end, under this epoch: all of it or nothing."""

    def become_leader(self, leader_epoch: int, /) -> None:
        """Note where the epoch begins."""

    async def read_patiently(
        self, offset: int, bytes_max: int, upper_offset: int, /, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """Return whole batches from the one that holds `offset`, ending below `upper_offset`."""

    async def flush(self) -> None:
        """Make all that was appended durable."""

    @property
    def size_bytes(self) -> int:
        """Return the size of all batches in the log."""

    def delete_records(self, offset: int, /) -> int:
        """Move the log start to `offset` and return the new log start offset."""

    async def retain(self, now_ms: int, high_watermark: int, /) -> None:
        """Let go of the segments that lie below the start of the log."""

    def take_doomed(self) -> list[str]:
        """Return the files of segments deleted since the last call, for the caller to remove."""

    async def close(self) -> None:
        """Flush and close the files."""
