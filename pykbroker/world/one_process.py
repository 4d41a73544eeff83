"""The process in which a client was made, since a fork copies neither its threads nor its share of the connections."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakSet


class OneProcess:
    """The process of a client. `name` is that of the client in the error. `forked` is called in each forked process."""

    def __init__(self, name: str, forked: Callable[[], None] = lambda: None) -> None:
        self._name, self._process, self._forked = name, os.getpid(), forked
        _ALL.add(self)

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

    def call_forked(self) -> None:
        """Tell the client that it is in a forked process now."""
        self._forked()


_ALL: WeakSet[OneProcess] = WeakSet()


def _note_fork() -> None:
    for each in list(_ALL):
        each.call_forked()


os.register_at_fork(after_in_child=_note_fork)
