"""The part of the module `select` of macOS that the poller uses, made of epoll, with kqueue's rules.

A socket without a filter is reported for nothing. A deletion of a filter that does not exist is an error.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import NamedTuple

KQ_FILTER_READ, KQ_FILTER_WRITE = -1, -2
KQ_EV_ADD, KQ_EV_DELETE, KQ_EV_CLEAR, KQ_EV_EOF = 0x1, 0x2, 0x20, 0x8000
HANG_UPS = {KQ_FILTER_READ: select.EPOLLRDHUP | select.EPOLLHUP, KQ_FILTER_WRITE: select.EPOLLHUP | select.EPOLLERR}
READY = {KQ_FILTER_READ: select.EPOLLIN | select.EPOLLRDHUP, KQ_FILTER_WRITE: select.EPOLLOUT}


class kevent(NamedTuple):
    """A change of a filter, or an event."""

    ident: int
    filter: int
    flags: int


class kqueue:
    """A queue that has a set of epoll for each kind of filter."""

    def __init__(self) -> None:
        self._both = select.epoll()
        self._filters = {which: select.epoll() for which in READY}
        for each in self._filters.values():
            self._both.register(each.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        return self._both.fileno()

    def control(self, changes: Sequence[kevent] | None, events_max: int, timeout: float | None = None) -> list[kevent]:
        for change in changes or ():
            epoll = self._filters[change.filter]
            if change.flags & KQ_EV_DELETE:
                epoll.unregister(change.ident)
            else:
                epoll.register(change.ident, READY[change.filter] | select.EPOLLET * bool(change.flags & KQ_EV_CLEAR))
        if not events_max:
            return []
        return [
            kevent(fd, which, KQ_EV_EOF * bool(events & HANG_UPS[which]))
            for which, epoll in self._filters.items()
            for fd, events in epoll.poll(0, events_max)
        ]

    def close(self) -> None:
        for each in (self._both, *self._filters.values()):
            each.close()
