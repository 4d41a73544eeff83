"""The kernel's poller for many sockets: epoll on Linux, kqueue on macOS and the BSDs."""

from __future__ import annotations

import select
import sys
from typing import Protocol

EVENTS_MAX = 256
"""The maximum number of ready sockets that the kernel returns in one pass."""


class Poll(Protocol):
    """A set of descriptors that the kernel watches. No method blocks."""

    def fileno(self) -> int:
        """Return the poller's descriptor, which is readable when a watched descriptor is ready."""

    def watch(self, fd: int, reads: bool, writes: bool) -> None:
        """Set whether a descriptor is watched for reads and writes. Errors and hang-ups are always reported."""

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor. The caller does this before it closes the descriptor."""

    def ready(self) -> list[tuple[int, int]]:
        """Return (descriptor, events) of at most `EVENTS_MAX` ready descriptors.

        Events are the kernel's bits, for the log.
        """

    def close(self) -> None:
        """Close the poller."""


if sys.platform == "linux":

    class EpollPoll:
        """The poller of Linux: epoll, level-triggered."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._watched: set[int] = set()

        def fileno(self) -> int:
            return self._epoll.fileno()

        def watch(self, fd: int, reads: bool, writes: bool) -> None:
            events = select.EPOLLIN * reads | select.EPOLLOUT * writes
            if fd in self._watched:
                self._epoll.modify(fd, events)
            else:
                self._epoll.register(fd, events)
                self._watched.add(fd)

        def forget(self, fd: int) -> None:
            self._watched.discard(fd)
            self._epoll.unregister(fd)

        def ready(self) -> list[tuple[int, int]]:
            return self._epoll.poll(0, EVENTS_MAX)

        def close(self) -> None:
            self._epoll.close()

    def open_poll() -> Poll:
        """Return a new poller of this platform's kind."""
        return EpollPoll()

elif sys.platform != "win32":

    class KqueuePoll:
        """The poller of macOS and the BSDs: kqueue. A socket has two filters; only watched ones are registered."""

        def __init__(self) -> None:
            self._kqueue = select.kqueue()
            self._watched: dict[int, tuple[bool, bool]] = {}

        def fileno(self) -> int:
            return self._kqueue.fileno()

        def watch(self, fd: int, reads: bool, writes: bool) -> None:
            before = self._watched.get(fd, (False, False))
            self._watched[fd] = (reads, writes)
            filters = (select.KQ_FILTER_READ, select.KQ_FILTER_WRITE)
            changes = [
                select.kevent(fd, which, select.KQ_EV_ADD if now else select.KQ_EV_DELETE)
                for which, was, now in zip(filters, before, (reads, writes), strict=True)
                if was != now
            ]
            if changes:
                self._kqueue.control(changes, 0)

        def forget(self, fd: int) -> None:
            self.watch(fd, False, False)
            del self._watched[fd]

        def ready(self) -> list[tuple[int, int]]:
            return [(event.ident, event.flags) for event in self._kqueue.control(None, EVENTS_MAX, 0)]

        def close(self) -> None:
            self._kqueue.close()

    def open_poll() -> Poll:
        """Return a new poller of this platform's kind."""
        return KqueuePoll()
