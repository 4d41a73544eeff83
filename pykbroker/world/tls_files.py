"""The files of TLS: stores that an operator or a start writes, and the private one from which OpenSSL takes a key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pykbroker.world.regular_file import read_regular

MODE, MODE_OF_SECRETS = 0o644, 0o600
STORE_BYTES_MAX = 16 << 20
"""The size of the largest store that is read. That of a Java installation has 200 KB."""
OWN_FILES = "/proc/self/fd"
"""The directory in which this process can open its files again, where the system has it."""


def read_store(path: str) -> bytes:
    """Return the bytes of a store. Raise OSError if it is no regular file of at most `STORE_BYTES_MAX`."""
    return read_regular(path, STORE_BYTES_MAX)


def replace_store(path: str, data: bytes, *, is_secret: bool) -> None:
    """Write a store durably, or replace it as a whole. Only this user can read a secret one. Raise OSError."""
    mode = MODE_OF_SECRETS if is_secret else MODE
    part = f"{path}.tmp"
    with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        os.chmod(part, mode)  # a start that was interrupted may have left the file
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def stamp(path: str) -> tuple[int, int, int]:
    """Return numbers that change when a file is written or replaced, also by a link to another file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # no path can have a zero byte
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


@contextmanager
def private_file(data: bytes) -> Iterator[str]:
    """Write a file that only this process can read, and remove it at the end. It is in memory where the kernel can."""
    fd, path = memory_file()
    is_on_disk = not os.path.exists(path)  # macOS has no files in memory, and a jail may have no /proc
    if is_on_disk:
        if fd >= 0:
            os.close(fd)
        fd, path = tempfile.mkstemp()  # with the mode 0600
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            yield path
    finally:
        if is_on_disk:
            os.unlink(path)


def memory_file() -> tuple[int, str]:
    """Return the descriptor and the path of a new file in memory, or -1 and an empty path."""
    create: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    try:
        fd = -1 if create is None else create("tls")
    except OSError:
        fd = -1
    return fd, f"{OWN_FILES}/{fd}" if fd >= 0 else ""
