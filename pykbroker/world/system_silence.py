"""The end of connections whose peer has fallen silent, as when a network loses everything without a reset.

1. An idle connection ends by the kernel's keep-alives.
2. A connection ends if the peer's kernel acknowledges nothing that was sent. Linux says so in TCP_INFO. The option
   TCP_USER_TIMEOUT is no substitute: it also ends a connection whose peer acknowledges, but has closed its window for
   so long, as a broker does whose memory for requests is used up.
3. Elsewhere only the keep-alives and the time limits of requests end a connection.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

import trio

from pykbroker.world.system_pump import SocketPump

SILENT_S_MAX = 5
"""The time in seconds without an acknowledgement of the peer's kernel after which a connection ends."""
KEEP_ALIVE_IDLE_S, KEEP_ALIVE_INTERVAL_S, KEEP_ALIVES_MAX = 2, 1, 3
"""A connection that was idle for so long sends a probe, and then so many others at this interval."""
LOOK_S = 1.0
"""The interval in seconds at which the kernel is asked for acknowledgements."""
KEEP_ALIVE_OPTIONS = {
    "TCP_KEEPIDLE": KEEP_ALIVE_IDLE_S,
    "TCP_KEEPALIVE": KEEP_ALIVE_IDLE_S,  # the name in macOS
    "TCP_KEEPINTVL": KEEP_ALIVE_INTERVAL_S,
    "TCP_KEEPCNT": KEEP_ALIVES_MAX,
}
TELLS_ACKNOWLEDGEMENTS = sys.platform == "linux"
TCP_INFO = Struct("=3xB20xI28xI")
"""The fields of Linux's `struct tcp_info`: unanswered probes of a closed window, unacknowledged segments, and the
milliseconds since the last acknowledgement."""


class Acknowledgements(NamedTuple):
    """The acknowledgements of a peer: whether it owes one, and how long ago the last one arrived."""

    owed: bool
    last_ms: int


def acknowledgements(sock: socket.socket) -> Acknowledgements:
    """Return the acknowledgements of the peer of a socket. The peer owes none if the kernel does not describe them."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
    except OSError:  # WSL 1 has no TCP_INFO
        info = b""
    if len(info) < TCP_INFO.size:  # qemu answers each option of TCP with an int
        return Acknowledgements(False, 0)
    probes, segments, last_ms = TCP_INFO.unpack(info)
    return Acknowledgements(probes + segments > 0, last_ms)


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel end the connection of a socket once its idle peer acknowledges no probe for `SILENT_S_MAX`."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE_OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class SilenceWatch:
    """The watch of connections for acknowledgements. `is_open` returns whether a pump still serves its socket."""

    def __init__(self, is_open: Callable[[SocketPump], bool]) -> None:
        self._is_open = is_open
        self._owed_since: dict[SocketPump, float] = {}
        """The time since which each peer owes an acknowledgement, or that of the last look."""
        self._added = trio.Event()

    def add(self, pump: SocketPump) -> None:
        """Watch a connection until it ends."""
        if TELLS_ACKNOWLEDGEMENTS:
            self._owed_since[pump] = trio.current_time()
            self._added.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Look at the connections until cancelled."""
        while True:
            await self._added.wait()
            await trio.sleep(LOOK_S)
            for pump in list(self._owed_since):
                self._look(pump, trio.current_time())
            if not self._owed_since:
                self._added = trio.Event()

    def _look(self, pump: SocketPump, now: float) -> None:
        if not self._is_open(pump):
            del self._owed_since[pump]
            return
        found, silent_s = acknowledgements(pump.socket), now - self._owed_since[pump]
        if not found.owed or found.last_ms < silent_s * 1000:
            self._owed_since[pump] = now
        elif silent_s >= SILENT_S_MAX + LOOK_S:  # the bytes were sent up to a look later than that
            pump.lose(OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))
