"""The disk seam: one log directory, its files, and file slices that are sent without copying."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import msgspec

Buffer = bytes | bytearray | memoryview


MISSES_MAX = 10_000
"""The maximum number of times that one call waits for the same bytes. If memory is short, they may be evicted again."""


class NotCached(Exception):
    """An error of a synchronous call that would have to wait. The caller awaits `fetch()` and repeats the call.

    `key` identifies the missing data. A call that raises the same key more than `waits_max` times makes no progress.
    """

    key: Hashable
    waits_max = MISSES_MAX

    def __init__(self, file: File, offset: int, size: int) -> None:
        super().__init__(file, offset, size)
        self._file, self._offset, self._size = file, offset, size
        self.key = file, offset, size

    async def fetch(self) -> None:
        """Wait until the missing bytes are in the page cache. A subclass may wait for other data."""
        await self._file.read(self._offset, self._size)


class Shortened(OSError):
    """An error of reading a file that is shorter than this process wrote or found it."""


class Locked(Exception):
    """An error of locking a directory that another broker has locked."""


class File(Protocol):
    """A file that grows at its end. Offsets and sizes are in bytes. Methods raise the kernel's OSErrors."""

    size: int
    """The file's size as this process wrote or found it."""

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end and return the new size. If an error is raised, nothing was written."""

    def write_over(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes that the file already has."""

    def read_nowait(self, offset: int, size: int) -> Buffer:
        """Read from the page cache. Raise NotCached if the disk is needed.

        Return fewer than `size` bytes only at the end of the file.
        """

    async def read(self, offset: int, size: int) -> Buffer:
        """Read in a thread, waiting for the disk. Return fewer than `size` bytes only at the end of the file.

        Raise Shortened if the file no longer has all bytes that it should have.
        """

    def truncate(self, size: int) -> None:
        """Truncate the file to `size`."""

    async def sync(self) -> None:
        """Make the content durable. After a failure, written bytes may be lost even if a later call succeeds."""

    async def barrier(self) -> None:
        """Order the content before all later writes. It may reach the device long after the call, but not after them.

        Without a call of the system for that, this is `sync`.
        """

    def close(self) -> None:
        """Close the descriptor. A second call does nothing.

        A file that is no longer referenced is closed automatically.
        """


class FileSlice(msgspec.Struct, frozen=True):
    """A range of a file, `size` bytes from `offset` on, that a pump sends without copying."""

    file: File
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size


class Disk(Protocol):
    """A log directory. Paths are relative to it and use "/"; listings are sorted."""

    path: str
    """The path of the directory as the operator wrote it."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending. Raise FileNotFoundError if it is missing and `create` is false."""

    def lock(self, path: str) -> None:
        """Lock the file for this process. Raise Locked if another broker has locked it."""

    def unlock(self, path: str) -> None:
        """Release the lock file and remove it."""

    def make_directory(self, path: str) -> None:
        """Create a directory. Raise FileExistsError if it exists."""

    def size(self, path: str) -> int:
        """Return the size of a file that is not open."""

    def modified_ms(self, path: str) -> int:
        """Return the time of the last change of a file's content, in ms since 1970."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time that `modified_ms` returns until the next change."""

    def names(self, path: str) -> list[str]:
        """Return the names of the files and directories in `path`. "" is the log directory itself."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name exists."""

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory."""

    def rename(self, old: str, new: str) -> None:
        """Rename `old` to `new` atomically, replacing `new` if it exists."""

    def protect(self, path: str) -> None:
        """Make the file read-only (mode 0400). It can still be renamed and removed."""

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""

    def free_bytes(self) -> int:
        """Return the free space of the volume that holds the log directory."""

    def total_bytes(self) -> int:
        """Return the size of the volume that holds the log directory."""

    async def sync_directory(self, path: str, files: tuple[str, ...] = ()) -> None:
        """Fsync the content of `files` in the directory `path`, then the directory itself.

        All creations, renames and removals in the directory are durable afterwards.
        """
