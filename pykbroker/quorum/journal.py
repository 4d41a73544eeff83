"""The Protocol of the metadata log. `storage.Log` matches it."""

from __future__ import annotations

from typing import Any, Protocol

from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.world.disk import Buffer, Disk, FileSlice

METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"
"""The name of the metadata log's directory, in the first log directory."""

BATCH_BYTES_MAX = 8 << 20
"""The size of the largest batch that Kafka's voters accept."""


class ReadableMetadata(Protocol):
    """The batches of the metadata log."""

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""

    async def read_patiently(
        self, offset: int, bytes_max: int, upper_offset: int, /, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """Return whole batches that end below `upper_offset`. The first is the batch that contains `offset`."""


class MetadataJournal(ReadableMetadata, Protocol):
    """The log of `__cluster_metadata-0`. A disk error raises OSError."""

    @property
    def log_start_offset(self) -> int:
        """Return the first offset of the log. A snapshot contains everything before it."""

    def append_as_leader(self, data: Buffer, leader_epoch: int, /) -> Any:
        """Append one batch at the end with this leader epoch, as a whole or not at all."""

    def become_leader(self, leader_epoch: int, /) -> None:
        """Record the offset at which the leader epoch begins."""

    async def flush(self) -> None:
        """Make all appended records durable."""

    @property
    def size_bytes(self) -> int:
        """Return the size of all batches in the log."""

    def delete_records(self, offset: int, /) -> int:
        """Move the log start offset to `offset` and return the new log start offset."""

    async def retain(self, now_ms: int, high_watermark: int, /) -> None:
        """Remove segments that end at or below the log start offset."""

    def take_deleted(self) -> list[str]:
        """Return the file paths of segments removed since the last call. The caller deletes the files."""

    async def close(self) -> None:
        """Flush and close the files."""


class ReplicatedJournal(MetadataJournal, Protocol):
    """The metadata log as its leader serves it to observers, and as an observer keeps its copy."""

    @property
    def epochs(self) -> LeaderEpochs:
        """Return the leader epochs, and the offsets at which they begin."""

    def append_stored(self, data: Buffer, /) -> Any:
        """Append batches with the offsets and epochs of their leader. Raise ApiError CORRUPT_MESSAGE if they do not
        follow the log."""

    async def truncate(self, offset: int, /) -> None:
        """Drop the batch that contains `offset` and all later ones."""

    async def truncate_fully_and_start_at(self, offset: int, /) -> None:
        """Drop all records and continue the log at `offset`."""


async def begin_at(journal: MetadataJournal, disk: Disk, offset: int, now_ms: int) -> None:
    """Delete the segments whose records are all below `offset`. A snapshot contains these records.

    The directory entries of the remaining segments are made durable first: a log without any segment would start at
    offset 0.
    """
    await journal.flush()
    journal.delete_records(offset)
    await journal.retain(now_ms, offset)
    for path in journal.take_deleted():
        disk.remove(path)
