"""The disk seam: one log directory, its files, and slices of them that travel uncopied."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


MISSES_MAX = 10_000
"""As often one call may wait for the same bytes of a file: a machine short of memory drops what was just read."""


class NotCached(Exception):
    """A plain call that must not wait would have to. `await fetch()`, then ask again.

    `key` names what is missing. A call that misses the same thing more than `waits_max` times makes no progress.
    """

    key: Hashable
    waits_max = MISSES_MAX

    def __init__(self, file: File, offset: int, size: int) -> None:
        super().__init__(file, offset, size)
        self._file, self._offset, self._size = file, offset, size
        self.key = file, offset, size

    async def fetch(self) -> None:
        """Wait for what is missing; here, for bytes to come into the page cache."""
        await self._file.read(self._offset, self._size)


class Shortened(OSError):
    """A file has become shorter than this process wrote or found it."""


class Locked(Exception):
    """Another process owns the directory."""


class File(Protocol):
    """A file that grows at its end. Offsets and sizes in bytes; errors are the kernel's OSError."""

    size: int
    """Bytes that belong to the file, as this process wrote or found them."""

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end, or nothing and raise; answers the new size."""

    def write_over(self, offset: int, data: Buffer) -> None:
        """Write where the file has bytes already."""

    def read_nowait(self, offset: int, size: int) -> Buffer:
        """Read from memory alone, else NotCached. Shorter than asked only at the end of the file."""

    async def read(self, offset: int, size: int) -> Buffer:
        """Read, waiting for the disk off the loop. Shorter than asked only at the end of the file. Shortened: it is."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size`."""

    async def sync(self) -> None:
        """Make the content durable. A failure is final: what was written may be lost though later calls succeed."""

    def close(self) -> None:
        """Give the descriptor back; twice is once. A file that is dropped closes itself."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of `file` from `offset` on, for a pump to send without copying."""

    file: File
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size


class Disk(Protocol):
    """One directory tree. Paths are relative to it, with "/"; listings are sorted."""

    path: str
    """The directory as the operator named it."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. FileNotFoundError unless `create`."""

    def lock(self, path: str) -> None:
        """Take the lock file for this process. Locked: another one has it."""

    def unlock(self, path: str) -> None:
        """Release the lock file and remove it."""

    def make_directory(self, path: str) -> None:
        """FileExistsError where there is one."""

    def size(self, path: str) -> int:
        """Bytes of a file that is not open."""

    def names(self, path: str) -> list[str]:
        """Files and directories in `path` ("" is the root)."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory of that name."""

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory."""

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old`, atomically."""

    def protect(self, path: str) -> None:
        """Let nobody write the file any more (mode 0400). It can still be read, renamed and removed."""

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""

    def free_bytes(self) -> int:
        """Room left on the volume."""

    def total_bytes(self) -> int:
        """Size of the volume."""

    async def sync_directory(self, path: str, files: tuple[str, ...] = ()) -> None:
        """Make names in `path` durable: creations, renames, removals. First the content of these files in it."""
