"""The users of `pykbroker cluster` as a file without a name, which no list of processes shows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable

from pykbroker.core.new_user import NewUser


class UsersFile:
    """A file with a user on each line, which a process reads whose parent passes it the descriptor."""

    def __init__(self, users: Iterable[NewUser]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it is open until its reader serves
        lines = (user.name if user.is_generated else f"{user.name}:{user.password.reveal()}" for user in users)
        self._file.write("".join(f"{line}\n" for line in lines).encode())
        self._file.flush()
        self.descriptor = self._file.fileno()

    def options(self) -> list[str]:
        """Return the option of a process that starts now. On macOS, all its readers share a position in the file."""
        self._file.seek(0)
        return ["--user", f"@/dev/fd/{self.descriptor}"]

    @property
    def is_closed(self) -> bool:
        """Whether the file is removed."""
        return self._file.closed

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
