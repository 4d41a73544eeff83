"""The kernel's poller for many sockets: epoll on Linux, kqueue on macOS and the BSDs."""

from __future__ import annotations

import select
import sys
from typing import Any, Protocol

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

    def close(self) -> None: ...


class KqueuePoll:
    """The poller of macOS and the BSDs: kqueue. `kernel` is the module `select`.

    A socket has a filter for reads and another for writes. kqueue reports nothing of a socket without a filter. If a
    socket is watched for neither, it has a filter for writes that reports only changes (EV_CLEAR), and only a hang-up
    is passed on, as by epoll. A peer that has only ended its sending has not hung up: it may still read.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel, self._kqueue = kernel, kernel.kqueue()
        self._watched: dict[int, tuple[int, int]] = {}
        """Descriptor -> the flags of its filters for reads and for writes, 0 without the filter."""

    def fileno(self) -> int:
        return int(self._kqueue.fileno())

    def watch(self, fd: int, reads: bool, writes: bool) -> None:
        kernel = self._kernel
        of_writes = kernel.KQ_EV_ADD if writes else 0 if reads else kernel.KQ_EV_ADD | kernel.KQ_EV_CLEAR
        self._set(fd, (kernel.KQ_EV_ADD * reads, of_writes))

    def _set(self, fd: int, flags: tuple[int, int]) -> None:
        """Delete each filter whose flags change, since an addition alone would not take EV_CLEAR back, and add it."""
        kernel, changes = self._kernel, []
        for which, was, now in zip(
            (kernel.KQ_FILTER_READ, kernel.KQ_FILTER_WRITE), self._watched.get(fd, (0, 0)), flags, strict=True
        ):
            if was != now:
                changes += [kernel.kevent(fd, which, kernel.KQ_EV_DELETE)] if was else []
                changes += [kernel.kevent(fd, which, now)] if now else []
        self._watched[fd] = flags
        if changes:
            self._kqueue.control(changes, 0)

    def forget(self, fd: int) -> None:
        self._set(fd, (0, 0))
        del self._watched[fd]

    def ready(self) -> list[tuple[int, int]]:
        kernel = self._kernel
        silent = (0, kernel.KQ_EV_ADD | kernel.KQ_EV_CLEAR)
        return [
            (event.ident, event.flags)
            for event in self._kqueue.control(None, EVENTS_MAX, 0)
            if event.flags & kernel.KQ_EV_EOF or self._watched[event.ident] != silent
        ]

    def close(self) -> None:
        self._kqueue.close()


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

else:

    def open_poll() -> Poll:
        """Return a new poller of this platform's kind."""
        return KqueuePoll(select)
