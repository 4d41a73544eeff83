"""The process in which a client was made, since a fork copies neither its threads nor its share of the connections."""

from __future__ import annotations

import os


class OneProcess:
    """The process of a client. `name` is that of the client in the error."""

    def __init__(self, name: str) -> None:
        self._name, self._process = name, os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether this process has made the client. In a forked one, a lock of the parent may stay taken for ever."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise RuntimeError in a process that was forked later."""
        if not self.is_current:
            raise RuntimeError(
                f"{self._name} was made in process {self._process}, and a forked process cannot use its connections: "
                "make another one in the child process"
            )
