"""A log directory on a simulated volume: an implementation of `world.disk` with disk faults.

Without faults that take time no call waits, so that the disk also works outside a simulation.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import trio

from pykbroker.sim.volume import Directory, Inode, Volume, failure
from pykbroker.world.disk import Buffer, Locked, NotCached

STALL = 100
"""The factor by which a stalled operation takes longer, up to WAIT_S_MAX."""
WAIT_S_MAX = 10.0
TEBIBYTE = 1 << 40


@dataclass(slots=True)
class DiskFaults:
    """The faults of a disk: chances from 0 to 1 per operation, and times in seconds."""

    room_bytes: int = TEBIBYTE
    write_fails: float = 0.0
    read_fails: float = 0.0
    sync_fails: float = 0.0
    not_cached: float = 0.0
    wait_s: float = 0.0
    """The average duration of an operation of the device, in seconds."""
    stalls: float = 0.0
    happened: dict[str, int] = field(default_factory=dict)

    def strike(self, dice: Random, chance: float, kind: str) -> bool:
        """Draw whether this fault happens now, and count it if it does."""
        if not chance or dice.random() >= chance:
            return False
        self.count(kind)
        return True

    def count(self, kind: str) -> None:
        self.happened[kind] = self.happened.get(kind, 0) + 1


class SimFile:
    """An open file. It can be used even after its name was removed."""

    __slots__ = ("__weakref__", "_closed", "_disk", "_inode", "_warm", "path", "size")

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self._disk, self.path, self._inode = disk, path, inode
        self._closed = self._warm = False
        self.size = len(inode.content)

    def _enter(self) -> None:
        self._disk.enter()
        if self._closed:
            raise failure(errno.EBADF, self.path)

    def append(self, data: Buffer) -> int:
        self._enter()
        disk, whole = self._disk, bytes(data)
        if disk.strikes(disk.faults.write_fails, "write failed"):
            raise failure(errno.EIO, self.path)
        if disk.faults.room_bytes < TEBIBYTE:
            self._append_into(disk.free_bytes(), whole)
        disk.volume.write(self._inode.number, self.size, whole)
        self._inode.modified_ms = disk.wall_ms()
        self.size += len(whole)
        return self.size

    def _append_into(self, room: int, whole: bytes) -> None:
        """Write as much as fits on a full disk, then truncate the file again, as a failed append does."""
        if room >= len(whole):
            return
        self._disk.faults.count("disk full")
        if room:
            self._disk.volume.write(self._inode.number, self.size, whole[:room])
            self._enter()
            self._disk.volume.truncate(self._inode.number, self.size)
        raise failure(errno.ENOSPC, self.path)

    def write_over(self, offset: int, data: Buffer) -> None:
        self._enter()
        if self._disk.strikes(self._disk.faults.write_fails, "write failed"):
            raise failure(errno.EIO, self.path)
        self._disk.volume.write(self._inode.number, offset, bytes(data))
        self._inode.modified_ms = self._disk.wall_ms()

    def read_nowait(self, offset: int, size: int) -> Buffer:
        disk = self._disk
        size = min(size, self.size - offset)
        if not self._warm and disk.strikes(disk.faults.not_cached, "not cached"):
            raise NotCached(self, offset, size)
        self._warm = False
        return self._content(offset, size)

    async def read(self, offset: int, size: int) -> Buffer:
        await self._disk.wait()
        self._warm = True
        return self._content(offset, min(size, self.size - offset))

    def sent(self, offset: int, size: int) -> bytes:
        """Read bytes for a pump, as sendfile does. Raise OSError (EBADF) if the file is closed."""
        return self._content(offset, size)

    def _content(self, offset: int, size: int) -> bytes:
        self._enter()
        if self._disk.strikes(self._disk.faults.read_fails, "read failed"):
            raise failure(errno.EIO, self.path)
        return bytes(self._inode.content[offset : offset + size])

    def truncate(self, size: int) -> None:
        self._enter()
        self._disk.volume.truncate(self._inode.number, size)
        self._inode.modified_ms = self._disk.wall_ms()
        self.size = size

    async def barrier(self) -> None:
        await self.sync()

    async def sync(self) -> None:
        self._enter()
        disk, mark = self._disk, self._inode.unsynced.mark
        await disk.wait()
        disk.enter()
        if disk.strikes(disk.faults.sync_fails, "sync failed"):
            disk.volume.fail_sync(self._inode.number, mark)
            raise failure(errno.EIO, self.path)
        disk.volume.sync(self._inode.number, mark)

    def close(self) -> None:
        self._closed = True


def alive() -> None:
    """Allow every operation. This is the check of a disk that belongs to no process."""


class SimDisk:
    """A disk of one process on a volume.

    It calls `enter` before every operation, which raises Killed if the process is dead. `wall_ms` is the time at which
    files change.
    """

    def __init__(
        self,
        volume: Volume,
        path: str = "simulated",
        *,
        faults: DiskFaults | None = None,
        dice: Random | None = None,
        enter: Callable[[], None] = alive,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.volume, self.path, self.enter, self.wall_ms = volume, path, enter, wall_ms
        self.faults = faults or DiskFaults()
        self._dice = dice or Random(0)
        self._locks: list[str] = []

    def strikes(self, chance: float, kind: str) -> bool:
        """Draw whether this fault happens now."""
        return self.faults.strike(self._dice, chance, kind)

    async def wait(self) -> None:
        """Wait for the duration of one operation of the device."""
        if self.faults.wait_s:
            stalled = self.strikes(self.faults.stalls, "stalled")
            wait_s = self._dice.expovariate(1 / self.faults.wait_s) * (STALL if stalled else 1)
            await trio.sleep(min(wait_s, WAIT_S_MAX))

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.enter()
        try:
            node = self.volume.find(path)
        except FileNotFoundError:
            if not create:
                raise
            self._check_room(path)
            node = self.volume.files[self.volume.create(path)]
            node.modified_ms = self.wall_ms()
        if isinstance(node, Directory):
            raise failure(errno.EISDIR, path)
        return SimFile(self, path, node)

    def lock(self, path: str) -> None:
        self.enter()
        if path in self.volume.locks:
            raise Locked(f"{self.path}/{path}: another process holds it")
        self.open(path, create=True)
        self.volume.locks.add(path)
        self._locks.append(path)

    def unlock(self, path: str) -> None:
        self.remove(path)
        self.volume.locks.discard(path)
        self._locks.remove(path)

    def release(self) -> None:
        """Release the locks of a dead process, as the kernel does."""
        self.volume.locks.difference_update(self._locks)
        self._locks.clear()

    def make_directory(self, path: str) -> None:
        self.enter()
        self._check_room(path)
        self.volume.make_directory(path)

    def size(self, path: str) -> int:
        self.enter()
        node = self.volume.find(path)
        return len(node.content) if isinstance(node, Inode) else 0

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def _inode(self, path: str) -> Inode:
        self.enter()
        node = self.volume.find(path)
        assert isinstance(node, Inode), f"{path} is a directory"
        return node

    def names(self, path: str) -> list[str]:
        self.enter()
        return sorted(self.volume.find_directory(path).entries)

    def exists(self, path: str) -> bool:
        self.enter()
        try:
            self.volume.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and isinstance(self.volume.find(path), Directory)

    def rename(self, old: str, new: str) -> None:
        self.enter()
        self.volume.rename(old, new)

    def protect(self, path: str) -> None:
        self.enter()
        self.volume.find(path)

    def remove(self, path: str) -> None:
        self.enter()
        self.volume.remove(path)

    def free_bytes(self) -> int:
        return max(0, self.faults.room_bytes - self.volume.used_bytes())

    def total_bytes(self) -> int:
        return self.faults.room_bytes

    async def sync_directory(self, path: str, files: tuple[str, ...] = ()) -> None:
        self.enter()
        for file in files:
            await self.open(f"{path}/{file}" if path else file).sync()
        mark = self.volume.find_directory(path).unsynced.mark
        await self.wait()
        self.enter()
        if self.strikes(self.faults.sync_fails, "sync failed"):
            raise failure(errno.EIO, path)
        self.volume.sync_directory(path, mark)

    def _check_room(self, path: str) -> None:
        if self.faults.room_bytes < TEBIBYTE and not self.free_bytes():
            self.faults.count("disk full")
            raise failure(errno.ENOSPC, path)
