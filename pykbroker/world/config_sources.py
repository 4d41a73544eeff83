"""The files and the environment that config providers read."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pykbroker.world.regular_file import read_regular

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
    """Return the text of a regular file. Raise OSError, or ValueError if it is not UTF-8."""
    return read_regular(path, FILE_BYTES_MAX).decode()
