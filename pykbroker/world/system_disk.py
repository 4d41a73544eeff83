"""A log directory on this machine's file system."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from pykbroker.world.disk import Buffer, Locked, NotCached, Shortened
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.system_file import (
    NO_WAIT,
    lock_owner,
    lock_whole,
    order_descriptor,
    pread,
    pwrite,
    sync_descriptor,
    sync_directory_descriptor,
)
from pykbroker.world.system_syncs import Syncs
from pykbroker.world.warm_ranges import WarmRanges

OPEN_FLAGS = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
NO_WAIT_REFUSED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
NS_PER_MS = 1_000_000
READ_AHEAD_BYTES = 256 << 10
"""The least size of a read in a thread where no read refuses to wait, so that a scan needs few threads."""
locked_here: set[str] = set()
"""The lock files that this process holds. They are needed because a POSIX lock does not exclude its own process."""


class SystemFile:
    """A file of the file system: its descriptor and size. One task writes at a time."""

    __slots__ = ("__weakref__", "_fd", "_off_loop", "_syncs", "_warm", "path", "size")

    def __init__(self, path: str, fd: int, off_loop: OffLoop, syncs: Syncs | None) -> None:
        self.path, self._fd, self._off_loop, self._syncs = path, fd, off_loop, syncs
        self.size = os.fstat(fd).st_size
        self._warm = None if NO_WAIT else WarmRanges(self.size)

    def fileno(self) -> int:
        """Return the descriptor, for sendfile.

        Raise OSError (EBADF) if the file is closed, because its descriptor may belong to another file by then.
        """
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._fd

    def append(self, data: Buffer) -> int:
        written = pwrite(self._fd, data, self.size)
        if written != len(data):
            self._append_rest(data, written)
        self.size += len(data)
        return self.size

    def _append_rest(self, data: Buffer, written: int) -> None:
        """Write the rest after a short write, or truncate the file to its old size and raise OSError."""
        rest = memoryview(data)
        try:
            while written < len(data):
                written += pwrite(self._fd, rest[written:], self.size + written)
        except OSError:
            os.ftruncate(self._fd, self.size)
            raise

    def write_over(self, offset: int, data: Buffer) -> None:
        rest = memoryview(data)
        while rest:
            written = pwrite(self.fileno(), rest, offset)
            rest, offset = rest[written:], offset + written

    def read_nowait(self, offset: int, size: int) -> Buffer:
        size = min(size, self.size - offset)
        if self._warm is not None:
            if not self._warm.has(offset, offset + size, self.size):
                raise NotCached(self, offset, size)
            return self._read_all(offset, size)
        buffer = bytearray(size)
        try:
            got = os.preadv(self.fileno(), [buffer], offset, NO_WAIT)
        except BlockingIOError:
            raise NotCached(self, offset, size) from None
        except OSError as error:
            if error.errno not in NO_WAIT_REFUSED:
                raise
            self._warm = WarmRanges(self.size)
            return self.read_nowait(offset, size)
        if got < size:
            raise NotCached(self, offset, size)
        return buffer

    async def read(self, offset: int, size: int) -> Buffer:
        size = min(size, self.size - offset)
        if self._warm is None:
            return await self._off_loop(self._read_all, offset, size)
        more = min(max(size, READ_AHEAD_BYTES), self.size - offset)
        try:
            data = await self._off_loop(self._read_all, offset, more)
        except Shortened:
            data = await self._off_loop(self._read_all, offset, size)  # the bytes that were asked for may be there
        self._warm.add(offset, offset + len(data))
        return data[:size]

    def _read_all(self, offset: int, size: int) -> bytes:
        parts = [pread(self.fileno(), size, offset)]
        while parts[-1] and (got := sum(map(len, parts))) < size:
            parts.append(pread(self.fileno(), size - got, offset + got))
        if sum(map(len, parts)) < size:
            raise Shortened(f"{self.path} ends before byte {offset + size}, though it is {self.size} bytes long")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fileno(), size)
        self.size = size
        if self._warm is not None:
            self._warm.cut(size)

    async def sync(self) -> None:
        if self._syncs is not None:
            await self._syncs(sync_descriptor, self.fileno())

    async def barrier(self) -> None:
        if order_descriptor is sync_descriptor:
            await self.sync()
        elif self._syncs is not None:
            await self._syncs(order_descriptor, self.fileno())

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


PRIVATE = ("__cluster_metadata-0/", "bootstrap.checkpoint")
"""The beginnings of the paths whose files have SCRAM keys and passwords, which only the user of the broker may read."""


class SystemDisk:
    """The directory tree below `root`. If `durable` is false (``--memory``), `sync` and `sync_directory` do nothing."""

    def __init__(self, root: str, off_loop: OffLoop, *, durable: bool = True) -> None:
        self.path = root
        self._root = os.path.abspath(root)
        self._off_loop = off_loop
        self._syncs = Syncs(off_loop) if durable else None
        self._locks: dict[str, int] = {}
        with suppress(OSError):  # the first use of the directory reports the error
            os.makedirs(self._root, exist_ok=True)

    def _at(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        fd = self._descriptor(path, create)
        return SystemFile(self._at(path), fd, self._off_loop, self._syncs)

    def _descriptor(self, path: str, create: bool) -> int:
        try:
            mode = 0o600 if path.startswith(PRIVATE) else 0o644
            return os.open(self._at(path), OPEN_FLAGS | (os.O_CREAT if create else 0), mode)
        except PermissionError:
            if create:
                raise
            return os.open(self._at(path), OPEN_FLAGS & ~os.O_RDWR | os.O_RDONLY)  # the file is read-only (`protect`)

    def lock(self, path: str) -> None:
        whole = os.path.realpath(self._at(path))
        if whole in locked_here:
            raise Locked(f"{whole}: this process holds it already")
        fd = os.open(whole, OPEN_FLAGS | os.O_CREAT, 0o644)
        try:
            lock_whole(fd)
        except OSError as error:
            pid = lock_owner(fd)
            os.close(fd)
            raise Locked(f"process {pid} holds {whole}" if pid else f"{whole}: {error.strerror}") from error
        locked_here.add(whole)
        self._locks[path] = fd

    def unlock(self, path: str) -> None:
        whole = os.path.realpath(self._at(path))
        # While the lock is held: the file could otherwise be that of a broker that has locked it meanwhile.
        with suppress(FileNotFoundError, PermissionError):
            os.remove(whole)
        os.close(self._locks.pop(path))
        locked_here.discard(whole)

    def make_directory(self, path: str) -> None:
        os.mkdir(self._at(path))

    def size(self, path: str) -> int:
        return os.stat(self._at(path)).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(self._at(path)).st_mtime_ns // NS_PER_MS

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(self._at(path), ns=(modified_ms * NS_PER_MS, modified_ms * NS_PER_MS))

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(self._at(path)))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._at(path))

    def rename(self, old: str, new: str) -> None:
        os.replace(self._at(old), self._at(new))

    def protect(self, path: str) -> None:
        os.chmod(self._at(path), stat.S_IRUSR)

    def remove(self, path: str) -> None:
        whole = self._at(path)
        if os.path.isdir(whole):
            os.rmdir(whole)
        else:
            os.remove(whole)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._root).free

    def total_bytes(self) -> int:
        return shutil.disk_usage(self._root).total

    async def sync_directory(self, path: str, files: tuple[str, ...] = ()) -> None:
        if self._syncs is not None:
            whole = self._at(path)
            await self._syncs(_sync_paths, (*(os.path.join(whole, file) for file in files), whole))


def _sync_paths(paths: tuple[str, ...]) -> None:
    """Fsync the files, then their directory. Windows has no fsync for directories."""
    for path in paths[:-1]:
        _sync_path(path, os.O_RDWR, sync_descriptor)
    if sys.platform != "win32":
        _sync_path(paths[-1], os.O_RDONLY, sync_directory_descriptor)


def _sync_path(path: str, flags: int, sync: Callable[[int], None]) -> None:
    fd = os.open(path, flags)
    try:
        sync(fd)
    finally:
        os.close(fd)
