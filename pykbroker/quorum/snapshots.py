"""The snapshot files of the metadata log, in the directory of the log.

A file gets its name when it is complete and durable. Until then its name ends in `.part`, and it is not read.
"""

from __future__ import annotations

import logging

from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.snapshot_file import Content, decode_snapshot, snapshot_name, snapshot_of
from pykbroker.storage.files.reading import read_file
from pykbroker.world.disk import Buffer, Disk
from pykbroker.world.off_loop import OffLoop
from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.records.control import control_records
from wire.sentinels import NO_TIMESTAMP
from wire.stored.control import SnapshotHeaderRecord

logger = logging.getLogger(__name__)

PART = ".checkpoint.part"
SUFFIX = ".checkpoint"
DAMAGED = ".damaged"
HEADER_BYTES_MAX = 64 << 10


class Snapshots:
    """The snapshots in one log directory. A disk error raises OSError."""

    def __init__(self, disk: Disk, off_loop: OffLoop) -> None:
        self._disk, self._off_loop = disk, off_loop

    def ids(self) -> list[OffsetAndEpoch]:
        """Return the ids of all snapshots, the oldest first."""
        return sorted(found for name in self._disk.names(METADATA_DIRECTORY) if (found := snapshot_of(name)))

    def path(self, snapshot: OffsetAndEpoch) -> str:
        """Return the file's path relative to the log directory."""
        return f"{METADATA_DIRECTORY}/{snapshot_name(snapshot)}"

    def size(self, snapshot: OffsetAndEpoch) -> int:
        """Return the file's size in bytes."""
        return self._disk.size(self.path(snapshot))

    async def read(self, snapshot: OffsetAndEpoch) -> Content:
        """Read and verify a whole snapshot. Raise DecodeError if it is damaged."""
        return await self._off_loop(decode_snapshot, await self._bytes(snapshot, None))

    async def read_part(self, snapshot: OffsetAndEpoch, position: int, bytes_max: int) -> Buffer:
        """Return at most `bytes_max` bytes of the file, from `position` on."""
        file = self._disk.open(self.path(snapshot))
        try:
            return await read_file(file, position, min(bytes_max, file.size - position))
        finally:
            file.close()

    async def time_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Return when the last record in the snapshot was appended to the log, or -1 if the header has no time."""
        try:
            header = next(control_records(Batch.read(await self._bytes(snapshot, HEADER_BYTES_MAX)))).value
        except (DecodeError, StopIteration):
            return NO_TIMESTAMP
        return header.last_contained_log_timestamp if isinstance(header, SnapshotHeaderRecord) else NO_TIMESTAMP

    async def _bytes(self, snapshot: OffsetAndEpoch, bytes_max: int | None) -> Buffer:
        file = self._disk.open(self.path(snapshot))
        try:
            return await read_file(file, 0, file.size if bytes_max is None else min(file.size, bytes_max))
        finally:
            file.close()

    async def write(self, snapshot: OffsetAndEpoch, parts: list[bytes]) -> None:
        """Write a snapshot durably."""
        await write_snapshot(self._disk, self.path(snapshot), parts)

    def begin(self, snapshot: OffsetAndEpoch) -> SnapshotPart:
        """Begin to write a snapshot that comes in parts. An earlier attempt is removed."""
        return SnapshotPart(self._disk, self.path(snapshot))

    def remove(self, snapshot: OffsetAndEpoch) -> None:
        self._disk.remove(self.path(snapshot))

    def set_aside(self, snapshot: OffsetAndEpoch, why: Exception) -> None:
        """Rename a damaged snapshot so that it is no longer read, but can be examined by an operator."""
        path = self.path(snapshot)
        name = snapshot_name(snapshot)
        logger.error("%s/%s is damaged (%s) and is not used; it is now %s", self._disk.path, path, why, name + DAMAGED)
        self._disk.rename(path, path + DAMAGED)

    def remove_parts(self) -> None:
        """Remove incomplete snapshots that a crash left behind."""
        for name in self._disk.names(METADATA_DIRECTORY):
            if name.endswith(PART):
                self._disk.remove(f"{METADATA_DIRECTORY}/{name}")


class SnapshotPart:
    """A snapshot file that is being written. It gets its name when it is complete."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path = disk, path
        self._part = path.removesuffix(SUFFIX) + PART
        if disk.exists(self._part):
            disk.remove(self._part)
        self._file = disk.open(self._part, create=True)

    def append(self, data: Buffer) -> None:
        self._file.append(data)

    async def complete(self) -> None:
        """Make the file durable and give it its name."""
        await self._file.sync()
        self._file.close()
        # Kafka's snapshots are read-only as well (`FileRawSnapshotWriter.freeze`).
        self._disk.protect(self._part)
        # The name comes last, so that a file with the name of a snapshot is complete.
        self._disk.rename(self._part, self._path)
        await self._disk.sync_directory(self._path.rpartition("/")[0])

    def close(self) -> None:
        """Close the file. Unless it is complete, the next attempt or start removes it."""
        self._file.close()


async def write_snapshot(disk: Disk, path: str, parts: list[bytes]) -> None:
    """Write a snapshot file durably."""
    part = SnapshotPart(disk, path)
    try:
        for data in parts:
            part.append(data)
        await part.complete()
    finally:
        part.close()
