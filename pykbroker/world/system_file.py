"""What the platforms do differently with a descriptor: positional I/O, durable writes, locks, reads without waiting."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt
    import threading

    from pykbroker.world.disk import Buffer

    position = threading.Lock()
    """A descriptor has one position, shared by the loop and the threads that read for it."""

    def pread(fd: int, size: int, offset: int) -> bytes:
        """Read at `offset`."""
        with position:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)

    def pwrite(fd: int, data: Buffer, offset: int) -> int:
        """Write at `offset`; answers how much went."""
        with position:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.write(fd, data)

    def lock_whole(fd: int) -> None:
        """Lock the file exclusively or raise OSError; never waits."""
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    pread, pwrite = os.pread, os.pwrite

    def lock_whole(fd: int) -> None:
        """Lock the file exclusively or raise OSError; never waits. The same lock as Java's FileLock."""
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


if sys.platform == "darwin":

    def sync_descriptor(fd: int) -> None:
        """fsync leaves the data in the drive's cache on macOS."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
elif sys.platform == "linux":
    sync_descriptor = os.fdatasync
else:
    sync_descriptor = os.fsync

NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""Flag of preadv: fail instead of waiting for the disk. 0 where the platform lacks it."""
