"""The end of a simulated TCP connection. It has the methods of a non-blocking socket, which the broker's pump calls."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pykbroker.sim.process import Process
from pykbroker.world.disk import Buffer

WINDOW_BYTES = 256 << 10
"""The maximum number of sent bytes that the peer has not read yet."""
FIN = b""
HostPort = tuple[str, int]


def broken(code: int) -> OSError:
    """Return the kernel's OSError of a broken socket."""
    return OSError(code, os.strerror(code))


def ignore() -> None:
    """Do nothing, since no task waits for this endpoint yet."""


class Path(Protocol):
    """The network between two endpoints."""

    def cut_short(self, size: int) -> int:
        """Return how many of `size` bytes a single read or write moves."""

    def post(self, sender: SimEndpoint) -> None:
        """Call `sender.arrive` when the newest segment of `sender` arrives at the peer."""

    def refuse(self, endpoint: SimEndpoint) -> None:
        """Reset the connection at the peer after the delay of the network."""

    def trace(self, endpoint: SimEndpoint, segment: bytes) -> None:
        """Trace the arrival of a segment at `endpoint`."""


class SimEndpoint:
    """One end of a simulated connection. It calls `notice` when it may have become readable, writable or broken."""

    __slots__ = (
        "_error",
        "_in_flight",
        "_inbox",
        "_path",
        "_peer_done",
        "_segments",
        "arrives_s",
        "backs_off",
        "closed",
        "due",
        "ends_silent",
        "local",
        "notice",
        "number",
        "peer",
        "process",
        "remote",
        "sent",
        "silent_since",
        "unacknowledged_since",
    )

    def __init__(self, path: Path, number: int, process: Process, local: HostPort, remote: HostPort) -> None:
        self._path, self.number, self.process, self.local, self.remote = path, number, process, local, remote
        self.notice: Callable[[], None] = ignore
        self.peer: SimEndpoint | None = None
        self.closed = self._peer_done = False
        self._error: OSError | None = None
        self._inbox = bytearray()
        self._segments: deque[bytes] = deque()
        self._in_flight = 0
        self.sent = 0
        """The number of segments that this endpoint has sent."""
        self.arrives_s = 0.0
        """The arrival time of the newest segment."""
        self.due = 0
        """The number of segments that have arrived, or have been lost."""
        self.ends_silent = False
        """Whether this end soon fails if its peer acknowledges nothing."""
        self.silent_since = 0.0
        """The time of the newest cut that this end's keep-alives may notice."""
        self.unacknowledged_since: float | None = None
        """The time since which acknowledgements of sent segments are missing, or None."""
        self.backs_off = False
        """Whether this end retransmits, and sends nothing new."""

    # ---- as a socket

    def fileno(self) -> int:
        """Return the number of this endpoint, which stands for a file descriptor."""
        return self.number

    def send(self, data: Buffer, _flags: int = 0) -> int:
        """Send bytes. Raise BlockingIOError if the window is full.

        Raise TypeError, and send nothing, if `data` is no buffer.
        """
        view = memoryview(data)
        self.process.step()
        self.check()
        room = WINDOW_BYTES - self._in_flight
        if room <= 0:
            raise BlockingIOError
        size = self._path.cut_short(min(len(view), room))
        self._in_flight += size
        self._post(bytes(view[:size]))
        return size

    def recv(self, size: int) -> bytes:
        """Receive bytes, or b"" at the end of the stream. Raise BlockingIOError if nothing has arrived."""
        self.process.step()
        if not self._inbox:
            self.check()
            if self._peer_done:
                return FIN
            raise BlockingIOError
        size = self._path.cut_short(min(size, len(self._inbox)))
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        if self.peer is not None:
            self.peer.window_opens(size)
        return data

    def recv_into(self, buffer: memoryview) -> int:
        """Receive bytes into a buffer, as `recv` does."""
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def shutdown(self, how: int) -> None:
        """Do nothing: simulated processes do not fork, and `close` ends both directions."""

    def close(self) -> None:
        """Close the endpoint, and reset the connection if bytes were not read.

        Do nothing for a dead process, whose endpoints are closed.
        """
        if not self.process.dead:
            self.end(reset=False)

    def check(self) -> None:
        """Raise OSError if the endpoint is closed or broken."""
        if self.closed:
            raise broken(errno.EBADF)
        if self._error is not None:
            raise self._error

    # ---- state

    @property
    def established(self) -> bool:
        return self.peer is not None

    @property
    def readable(self) -> bool:
        """Whether `recv` would not block."""
        return bool(self._inbox) or self._peer_done or self.failed

    @property
    def writable(self) -> bool:
        """Whether `send` would not block."""
        return self._in_flight < WINDOW_BYTES or self.failed

    @property
    def failed(self) -> bool:
        """Whether the connection is broken."""
        return self._error is not None

    @property
    def has_unsent(self) -> bool:
        """Whether a segment has not arrived at the peer."""
        return bool(self._segments)

    @property
    def arrived(self) -> int:
        """Return the number of segments that have arrived at the peer."""
        return self.sent - len(self._segments)

    # ---- what happens to it

    def stall(self, until_s: float) -> None:
        """Delay all segments that are sent from now on until this time."""
        self.arrives_s = max(self.arrives_s, until_s)

    def arrive(self) -> None:
        """Deliver the oldest segment in flight to the peer. No segment overtakes a delayed segment."""
        if self._segments and self.peer is not None:
            self.peer.take(self._segments.popleft())

    def take(self, segment: bytes) -> None:
        """Receive a segment of the peer. A closed endpoint responds with a reset."""
        self._path.trace(self, segment)
        if self.closed or self.failed:
            if segment != FIN:
                self._path.refuse(self)
            return
        if segment == FIN:
            self._peer_done = True
        else:
            self._inbox += segment
        self.notice()

    def window_opens(self, size: int) -> None:
        """Record that the peer has read `size` bytes."""
        self._in_flight -= size
        self.notice()

    def fail(self, code: int) -> None:
        """Break the connection with this errno."""
        if not self.failed and not self.closed:
            self._error = broken(code)
            self._segments.clear()
            self.notice()

    def end(self, *, reset: bool) -> None:
        """Close the endpoint, as the kernel also does when a process dies."""
        if self.closed:
            return
        self.closed = True
        if self.failed or self.peer is None:
            return
        if reset or self._inbox:
            self._segments.clear()
            self._path.refuse(self)
        else:
            self._post(FIN)

    def vanish(self) -> None:
        """Drop the connection without notice to the peer, as when the host loses power."""
        self.closed = True
        self._segments.clear()

    def _post(self, segment: bytes) -> None:
        self._segments.append(segment)
        self.sent += 1
        self._path.post(self)
