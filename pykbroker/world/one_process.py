"""The process in which a client was made, since a fork copies neither its threads nor its share of the connections."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakSet


class OneProcess:
    """The process of a client. `name` is that of the client in the error, and `lost` says what a fork does not have.

    `forked` is called in each forked process. Each record of a producer asks for `is_current`, so it is an attribute,
    which costs no system call.
    """

    def __init__(
        self,
        name: str,
        forked: Callable[[], None] = lambda: None,
        *,
        lost: str = "a forked process cannot use its connections",
    ) -> None:
        self._name, self._process, self._forked, self._lost = name, os.getpid(), forked, lost
        self.is_current = True
        """Whether this process has made the client. In a forked one, a lock of the parent may stay taken for ever."""
        _ALL.add(self)

    def check(self) -> None:
        """Raise RuntimeError in a process that was forked later."""
        if not self.is_current:
            raise RuntimeError(
                f"{self._name} was made in process {self._process}, and {self._lost}: make another one in the child "
                "process"
            )

    def call_forked(self) -> None:
        """Tell the client that it is in a forked process now."""
        self.is_current = False
        self._forked()


_ALL: WeakSet[OneProcess] = WeakSet()


def _note_fork() -> None:
    for each in list(_ALL):
        each.call_forked()


os.register_at_fork(after_in_child=_note_fork)
