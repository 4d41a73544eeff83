"""The network of a real machine: one poller for all connections, so that one trio wait serves all ready sockets.

1. A connection has no task and, while it is idle, no buffer. `run` waits for the poller only and serves each ready
   socket.
2. During a long pass over the ready sockets, other tasks run in between. Connections of clients that have not logged
   in, new ones and handshakes get a limited time of each pass.
3. Peers that may not connect yet wait in the kernel's backlog, without using resources of this process.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING

import trio

from pykbroker.world.fair_lock import key_of_host
from pykbroker.world.loop_watch import LoopWatch
from pykbroker.world.net import Accept, C, NetStatistics, Peer, Pump, SocketOptions, Tls
from pykbroker.world.rate_limited_warning import RateLimitedWarning
from pykbroker.world.system_bind import ALL_INTERFACES, bound_socket, listen, plain
from pykbroker.world.system_connect import connected_socket
from pykbroker.world.system_handshakes import Handshakes
from pykbroker.world.system_newcomers import Newcomers
from pykbroker.world.system_poll import open_poll
from pykbroker.world.system_pump import Homes, SocketPump, end
from pykbroker.world.system_silence import SilenceWatch, keep_alive

if TYPE_CHECKING:
    from pykbroker.world.system_tls_pump import ReadBuffers

BACKLOG_MIN = 1024
"""The minimum backlog, above Kafka's default of 50. Kafka accepts in a separate thread.

Here accepting waits for the event loop, and a peer that finds the backlog full retries only after a second.
"""
ACCEPT_NS_MAX = 500_000
"""The time in one pass of the event loop after which a listener accepts no further peer."""
ACCEPT_REST_S = 0.1
"""The pause in accepting after the limit on connections is reached or no descriptor is free."""
STEP_NS_MAX = 10_000_000
"""The maximum time for which a pass over the ready sockets delays other tasks."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

logger = logging.getLogger(__name__)


class SystemListener:
    """A bound socket that starts to listen in `listen`. `port` is the actual port, also if port 0 was requested.

    `host` is the address that was requested if it stands for all interfaces.
    """

    def __init__(self, host: str, sock: socket.socket, options: SocketOptions, net: SystemNet) -> None:
        self._socket, self._options, self._net = sock, options, net
        self._complaint = RateLimitedWarning(logger, perf_counter_ns)
        self._accept: Accept | None = None
        self._tls: Tls | None = None
        self.fd = sock.fileno()
        bound, self.port = sock.getsockname()[:2]
        self.host = host if host in ALL_INTERFACES else bound

    def listen(self, accept: Accept, tls: Tls | None = None) -> None:
        """Listen, and pass accepted peers to `accept`."""
        self._accept, self._tls = accept, tls
        listen(self._socket, max(self._options.backlog, BACKLOG_MIN))
        self._net.watch(self)

    def turn(self) -> None:
        """Accept waiting peers. Accepting pauses while `accept` has no room or no descriptor is free."""
        accept = self._accept
        assert accept is not None
        try:
            if not accept.has_room():
                self._net.rest(self)
                accept.paused()
                return
            if self._tls is not None and self._net.is_shaking_many:
                self._net.rest(self)
                return
            begun = perf_counter_ns()
            while perf_counter_ns() - begun < ACCEPT_NS_MAX:
                self._admit(accept, *self._socket.accept())
                if not accept.has_room():
                    return
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                self._complaint.warn(
                    "cannot accept on %s:%s: %s. Raise the limit of open files.", self.host, self.port, error
                )
                self._net.rest(self)
            else:
                logger.debug("accept: %s", error)

    def _admit(self, accept: Accept, sock: socket.socket, address: tuple[str, int]) -> None:
        sock.setblocking(False)
        try:
            # Nagle's algorithm would hold a small response back until the client has acknowledged the one before.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._options.send_buffer_bytes >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes)
            local_host, local_port = sock.getsockname()[:2]
        except OSError:
            sock.close()
            return
        # thousands of connections come from a few hosts: interning keeps one string for each host
        peer = Peer(sys.intern(plain(address[0])), address[1], sys.intern(plain(local_host)), local_port)
        pump = self._net.pump(sock, self._tls)
        pump.key = key_of_host(peer.host)
        connection = accept(peer, pump)
        if connection is None:
            sock.close()
        else:
            pump.start(connection)
            if self._options.ends_silent:
                pump.end_when_silent()

    def close(self) -> None:
        """Stop accepting. The kernel refuses the peers in the backlog."""
        self._net.forget(self)
        end(self._socket)


class SystemNet:
    """The network of a real machine: the sockets of one broker and their poller."""

    def __init__(self) -> None:
        self._poll = open_poll()
        self._pumps: dict[int, SocketPump] = {}
        self._listeners: dict[int, SystemListener] = {}
        self._paused: set[SystemListener] = set()
        self._pause_begun = trio.Event()
        self._watch = LoopWatch(perf_counter_ns)
        self._handshakes, self._newcomers = Handshakes(perf_counter_ns), Newcomers(perf_counter_ns)
        self._homes = Homes(self._pumps, self._newcomers.pumps)
        self._tls_buffers: ReadBuffers | None = None
        self._silence = SilenceWatch(lambda pump: pump.is_open)

    def bind(self, host: str, port: int, options: SocketOptions = SocketOptions()) -> SystemListener:  # noqa: B008
        """Bind one address, or all interfaces of both families. Raise OSError if it cannot be bound."""
        sock = bound_socket(host, port)
        sock.setblocking(False)
        if options.receive_buffer_bytes >= 0:  # TCP negotiates the window scale with the first packet
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        return SystemListener(host, sock, options, self)

    @property
    def is_shaking_many(self) -> bool:
        """Whether no further handshake of TLS may begin now."""
        return self._handshakes.is_full

    def watch(self, listener: SystemListener) -> None:
        """Start to accept the connections of a listener."""
        self._listeners[listener.fd] = listener
        self._poll.watch(listener.fd, True, False)

    def pump(self, sock: socket.socket, tls: Tls | None = None) -> SocketPump:
        if tls is None:
            return SocketPump(sock, self._poll, self._homes, self._watch_silence)
        from pykbroker.world.system_tls_pump import ReadBuffers, TlsPump  # for a process that uses TLS

        if self._tls_buffers is None:
            self._tls_buffers = ReadBuffers()
        handshakes, buffers = self._handshakes, self._tls_buffers
        return TlsPump(sock, self._poll, self._homes, self._watch_silence, handshakes, buffers, tls)

    def _watch_silence(self, pump: SocketPump) -> None:
        with suppress(OSError):  # macOS sets no option of a socket whose peer has reset the connection
            keep_alive(pump.socket)
        self._silence.add(pump)

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[[Peer, Pump], C],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
    ) -> C:
        """Connect to the first address of a host that accepts (RFC 8305), and serve the connection."""
        sock = await connected_socket(host, port)
        try:
            if receive_buffer_bytes >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            peer = Peer(*sock.getpeername()[:2], *sock.getsockname()[:2])
            pump = self.pump(sock, tls)
            connection = open_connection(peer, pump)
        except BaseException:
            sock.close()
            raise
        pump.start(connection)
        pump.end_when_silent()
        await pump.secured()
        return connection

    def forget(self, listener: SystemListener) -> None:
        """Stop watching a listener that closes."""
        if self._listeners.pop(listener.fd, None) is not None:
            self._paused.discard(listener)
            self._poll.forget(listener.fd)

    def rest(self, listener: SystemListener) -> None:
        """Pause accepting on this listener for `ACCEPT_REST_S`. Its peers wait in the backlog."""
        self._poll.watch(listener.fd, False, False)
        self._paused.add(listener)
        self._pause_begun.set()

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Return all addresses of a host, as this machine's resolver reports them."""
        found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def statistics(self) -> NetStatistics:
        """Return the counters since the start."""
        return self._watch.statistics()

    # Control-C must not interrupt a connection halfway through a request: trio raises it in the main task instead.
    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Serve until cancelled, then close all sockets."""
        self._watch.begin()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._resume_listeners)
                nursery.start_soon(self._silence.run)
                nursery.start_soon(self._handshakes.run)
                nursery.start_soon(self._watch.run)
                await self._serve()
        finally:
            trio.lowlevel.remove_instrument(self._watch)
            for listener in list(self._listeners.values()):
                listener.close()
            for pump in [*self._handshakes.pumps.values(), *self._newcomers.pumps.values(), *self._pumps.values()]:
                pump.close()
            self._poll.close()

    async def _serve(self) -> None:
        poll, pumps, listeners = self._poll, self._pumps, self._listeners
        handshakes, newcomers = self._handshakes, self._newcomers
        descriptor = poll.fileno()
        while True:
            if handshakes.waiting or newcomers.waiting:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(descriptor)
            begun = perf_counter_ns()
            ready = poll.ready()
            others = len(ready)
            for fd, _ in ready:
                # A socket that was served before in this pass may have closed this one.
                pump = pumps.get(fd)
                if pump is not None:
                    pump.turn()
                else:
                    others -= 1
                    if fd in newcomers.pumps:
                        newcomers.wait(newcomers.pumps[fd])
                    elif fd in listeners:
                        listeners[fd].turn()
                    elif fd in handshakes.pumps:
                        handshakes.pumps[fd].turn()
                if perf_counter_ns() - begun > STEP_NS_MAX:
                    await trio.lowlevel.checkpoint()
                    begun = perf_counter_ns()
            if newcomers.waiting:
                newcomers.turn()
            if handshakes.waiting:
                handshakes.step(others_wait=others > 0)

    @trio.lowlevel.enable_ki_protection
    async def _resume_listeners(self) -> None:
        """Resume accepting on paused listeners."""
        while True:
            await self._pause_begun.wait()
            await trio.sleep(ACCEPT_REST_S)
            self._pause_begun = trio.Event()
            while self._paused:
                self._poll.watch(self._paused.pop().fd, True, False)
