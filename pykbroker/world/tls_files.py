"""The files of TLS: stores that an operator or a start writes, and the private one from which OpenSSL takes a key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MODE, MODE_OF_SECRETS = 0o644, 0o600


def read_store(path: str) -> bytes:
    """Return the bytes of a store. Raise OSError if this process cannot read it."""
    return Path(path).read_bytes()


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
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


@contextmanager
def private_file(data: bytes) -> Iterator[str]:
    """Write a file that only this process can read, and remove it at the end. It is in memory where the kernel can."""
    create: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    if create is None:
        fd, path = tempfile.mkstemp()  # with the mode 0600
    else:
        fd = create("tls")
        path = f"/proc/self/fd/{fd}"
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            yield path
    finally:
        if create is None:
            os.unlink(path)
