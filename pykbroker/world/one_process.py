"""The process in which a client was made, since a fork copies neither its threads nor its share of the connections."""

from __future__ import annotations

import os


class OneProcess:
    """The process of a client. `name` is that of the client in the error."""

    def __init__(self, name: str) -> None:
        self._name, self._process = name, os.getpid()

    def check(self) -> None:
        """Raise RuntimeError in a process that was forked later."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self._name} was made in process {self._process}, and a forked process cannot use its connections: "
                "make another one in the child process"
            )
