"""The files and the environment that config providers read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

FILE_BYTES_MAX = 1 << 20
"""The size of the largest file that a provider reads."""


class SystemConfigSources:
    """The sources of this process."""

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def properties(self, path: str) -> Mapping[str, str]:
        """Return the entries of a properties file. Raise OSError or ValueError if it cannot be read."""
        import javaproperties

        return javaproperties.loads(read_text(path))

    def file_in(self, directory: str, name: str) -> str | None:
        """Return the text of a regular file in a directory, or None if there is none. Raise OSError or ValueError."""
        path = os.path.join(directory, name)
        return read_text(path) if os.path.isfile(path) else None


def read_text(path: str) -> str:
    """Return the text of a regular file. Raise OSError, or ValueError if it is too large or not UTF-8."""
    # A broker reads dynamic configs on its event loop, which a pipe or a terminal would stop.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a regular file")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return data.decode()
