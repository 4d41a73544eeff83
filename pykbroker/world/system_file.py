"""File operations that differ between platforms: positional I/O, durable writes, locks, and reads that do not wait."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable

if sys.platform == "win32":
    import msvcrt
    import threading

    from pykbroker.world.disk import Buffer

    position = threading.Lock()
    """Guards a descriptor's position, which the loop and its threads share."""

    def pread(fd: int, size: int, offset: int) -> bytes:
        """Read at `offset`."""
        with position:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)

    def pwrite(fd: int, data: Buffer, offset: int) -> int:
        """Write at `offset` and return the number of bytes written."""
        with position:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.write(fd, data)

    def lock_whole(fd: int) -> None:
        """Lock the file exclusively without waiting. OSError: another process holds the lock."""
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    pread, pwrite = os.pread, os.pwrite

    def lock_whole(fd: int) -> None:
        """Lock the file exclusively without waiting. The lock excludes Java's FileLock. OSError: it is taken."""
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


F_FULLFSYNC, F_BARRIERFSYNC = 51, 85
"""Commands of macOS's fcntl. The first one flushes the drive's cache, too, where macOS's fsync leaves the data.

The second one only keeps later writes behind earlier ones, for which the drive need not empty its cache.
"""
NO_COMMAND = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)
"""The errors of a file system that does not know a command, as some of a network."""


def full_flush(fd: int, call: Callable[[int, int], object]) -> None:
    """Flush a file and the drive's cache by `call`, macOS's fcntl. If the file system cannot, flush only the file."""
    try:
        call(fd, F_FULLFSYNC)
    except OSError as error:
        if error.errno not in NO_COMMAND:
            raise
        os.fsync(fd)


def write_barrier(fd: int, call: Callable[[int, int], object]) -> None:
    """Keep later writes behind those of a file by `call`, macOS's fcntl. If the file system cannot, flush the file."""
    try:
        call(fd, F_BARRIERFSYNC)
    except OSError as error:
        if error.errno not in NO_COMMAND:
            raise
        full_flush(fd, call)


if sys.platform == "darwin":

    def sync_descriptor(fd: int) -> None:
        """Make the content of a file durable."""
        full_flush(fd, fcntl.fcntl)

    def order_descriptor(fd: int) -> None:
        """Keep later writes behind those of a file."""
        write_barrier(fd, fcntl.fcntl)

    sync_directory_descriptor = sync_descriptor
elif sys.platform == "linux":
    sync_descriptor = order_descriptor = os.fdatasync
    sync_directory_descriptor = os.fsync
else:
    sync_descriptor = order_descriptor = sync_directory_descriptor = os.fsync

if sys.platform == "linux":
    FLOCK = struct.Struct("hhqqi4x")
    """Linux's struct flock on 64 bits: type, whence, start, length and pid."""

    def lock_owner(fd: int) -> int:
        """Return the pid of the process that has locked the file; 0 if it is not known, as in another container."""
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        pid: int = FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[-1]
        return max(pid, 0)
else:

    def lock_owner(fd: int) -> int:
        """Return 0: the pid is not known."""
        return 0


NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""The preadv flag that makes a read fail instead of waiting for the disk. It is 0 on platforms without the flag."""
