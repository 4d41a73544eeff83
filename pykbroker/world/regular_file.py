"""The reading of small files that a config names. A pipe, a terminal or a huge file would stop the reader."""

from __future__ import annotations

import errno
import os
import stat


def read_regular(path: str, bytes_max: int) -> bytes:
    """Return the bytes of a regular file. Raise OSError if it is none, or has more than `bytes_max` bytes."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it has more than {bytes_max} bytes", path)
    return data
