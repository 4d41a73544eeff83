"""The machine's network: one poller for all connections, so that one trio wait is shared by all that is ready.

1. A connection has no task and, while idle, no buffer. `run` waits for the poller alone and serves every ready socket.
2. One recv a turn, all frames in it, one send for all replies that are ready; large slices of files by sendfile.
3. A peer that takes no more is watched for room and not read.
"""

from __future__ import annotations

import errno
import logging
import os
import socket

import trio

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Accept, Connection, Peer
from pykbroker.world.system_poll import Poll, open_poll

RECV_BYTES = 65536
BACKLOG = 1024
ACCEPT_REST_S = 0.2
"""How long accepting rests when the process is out of descriptors."""
MSG_MORE = getattr(socket, "MSG_MORE", 0)
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

logger = logging.getLogger(__name__)


class SocketPump:
    """One connected socket and the connection whose bytes it moves."""

    __slots__ = ("_blocked", "_poll", "_pumps", "_socket", "_watched", "connection", "fd")

    def __init__(self, sock: socket.socket, poll: Poll, pumps: dict[int, SocketPump]) -> None:
        self._socket, self._poll, self._pumps = sock, poll, pumps
        self.fd = sock.fileno()
        self._blocked = False
        self._watched = (False, False)
        self.connection: Connection

    def start(self, connection: Connection) -> None:
        """From now on the poller serves this socket."""
        self.connection = connection
        self._pumps[self.fd] = self
        self._settle()

    def turn(self) -> None:
        """The socket is ready: send first what is owed, else read once."""
        connection = self.connection
        try:
            if self._blocked:
                self._settle()
            elif connection.wants_input:
                self._read()
                self._settle()
            else:  # only an error or a hang-up is reported then
                self.close()
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error)

    def flush(self) -> None:
        """Send what is ready, outside a turn. The peer may be gone already."""
        if self._pumps.get(self.fd) is not self:
            return
        try:
            self._settle()
        except OSError as error:
            self._lost(error)

    def close(self) -> None:
        """Close the socket and tell the connection; a second call does nothing."""
        if self._pumps.get(self.fd) is self:
            del self._pumps[self.fd]
            self._poll.forget(self.fd)
            self._socket.close()
            self.connection.closed()

    def _read(self) -> None:
        connection = self.connection
        if connection.room is None:
            data = self._socket.recv(RECV_BYTES)
            if data:
                connection.received(data)
            else:
                connection.ended = True
        else:
            size = self._socket.recv_into(connection.room)  # no name here may hold on to a buffer that is given back
            if size:
                connection.filled(size)
            else:
                connection.ended = True

    def _settle(self) -> None:
        """Send what is owed, let the connection go on where it had stopped, and watch for what comes next."""
        connection = self.connection
        if connection.out:
            self._send()
        while not connection.out and connection.resume():
            self._send()
        if connection.ended:
            self.close()
            return
        wanted = (not self._blocked and connection.wants_input, self._blocked)
        if wanted != self._watched:
            self._poll.watch(self.fd, *wanted)
            self._watched = wanted

    def _send(self) -> None:
        """Send as much as the socket takes; `_blocked` says whether something is left."""
        out = self.connection.out
        if not out:
            return
        try:
            data = b"".join(out) if len(out) > 1 else memoryview(out[0])  # type: ignore[arg-type]
        except TypeError:
            self._blocked = not self._send_slices(out)
            return
        out.clear()
        sent = self._send_bytes(data)
        self._blocked = sent < len(data)
        if self._blocked:
            out.append(memoryview(data)[sent:])

    def _send_bytes(self, data: Buffer, flags: int = 0) -> int:
        try:
            return self._socket.send(data, flags)
        except BlockingIOError:
            return 0

    def _send_slices(self, out: list[Buffer | FileSlice]) -> bool:
        """Runs of buffers by send, slices of files by sendfile. True when all is sent."""
        while out:
            run = next((i for i, part in enumerate(out) if isinstance(part, FileSlice)), len(out))
            if run:
                data = b"".join(out[:run])  # type: ignore[arg-type]
                sent = self._send_bytes(data, MSG_MORE if run < len(out) else 0)
                out[:run] = [] if sent == len(data) else [memoryview(data)[sent:]]
                if sent < len(data):
                    return False
            elif not self._send_file(out):
                return False
        return True

    def _send_file(self, out: list[Buffer | FileSlice]) -> bool:
        """Send some of the slice that is first in line. False: the socket takes no more."""
        part = out[0]
        assert isinstance(part, FileSlice)
        try:
            sent = os.sendfile(self.fd, part.file.fileno(), part.offset, part.size)  # type: ignore[attr-defined]
        except BlockingIOError:
            return False
        if not sent:
            raise OSError(errno.EIO, f"{part.size} bytes at {part.offset} of a log segment are gone")
        if sent == part.size:
            del out[0]
        else:
            out[0] = FileSlice(part.file, part.offset + sent, part.size - sent)
        return True

    def _lost(self, error: OSError) -> None:
        logger.debug("connection lost: %s", error)
        self.close()


class SystemListener:
    """A bound, listening socket. `port` is the real one where 0 was asked for."""

    def __init__(self, sock: socket.socket, net: SystemNet) -> None:
        self._socket, self._net = sock, net
        self.fd = sock.fileno()
        self.host, self.port = sock.getsockname()[:2]

    def turn(self, accept: Accept) -> None:
        """Take every peer that waits. Out of descriptors, accepting rests for a while."""
        try:
            while True:
                self._admit(accept, *self._socket.accept())
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                logger.error("cannot accept on %s:%s: %s. Raise the limit of open files.", self.host, self.port, error)
                self._net.rest(self)
            else:
                logger.debug("accept: %s", error)

    def _admit(self, accept: Accept, sock: socket.socket, address: tuple[str, int]) -> None:
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(*address[:2], *sock.getsockname()[:2])
        except OSError:
            sock.close()
            return
        pump = self._net.pump(sock)
        connection = accept(peer, pump)
        if connection is None:
            sock.close()
        else:
            pump.start(connection)

    def close(self) -> None:
        """Stop accepting; peers in the backlog are refused by the kernel."""
        self._net.forget(self)
        self._socket.close()


class SystemNet:
    """All sockets of one broker behind one poller."""

    def __init__(self) -> None:
        self._poll = open_poll()
        self._pumps: dict[int, SocketPump] = {}
        self._listeners: dict[int, SystemListener] = {}
        self._resting: set[SystemListener] = set()
        self._tired = trio.Event()

    def listen(self, host: str, port: int) -> SystemListener:
        """Bind and listen on one address; OSError says why that cannot be."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, port), family=family, backlog=BACKLOG)
        sock.setblocking(False)
        listener = SystemListener(sock, self)
        self._listeners[listener.fd] = listener
        self._poll.watch(listener.fd, True, False)
        return listener

    def pump(self, sock: socket.socket) -> SocketPump:
        """The pump of a socket that was just accepted."""
        return SocketPump(sock, self._poll, self._pumps)

    def forget(self, listener: SystemListener) -> None:
        """A listener closes."""
        if self._listeners.pop(listener.fd, None) is not None:
            self._resting.discard(listener)
            self._poll.forget(listener.fd)

    def rest(self, listener: SystemListener) -> None:
        """Leave this listener's peers in its backlog for ACCEPT_REST_S."""
        self._poll.watch(listener.fd, False, False)
        self._resting.add(listener)
        self._tired.set()

    async def run(self, accept: Accept) -> None:
        """Serve until cancelled; then every socket is closed."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._rouse)
                await self._serve(accept)
        finally:
            for listener in list(self._listeners.values()):
                listener.close()
            for pump in list(self._pumps.values()):
                pump.close()
            self._poll.close()

    async def _serve(self, accept: Accept) -> None:
        poll, pumps, listeners = self._poll, self._pumps, self._listeners
        descriptor = poll.fileno()
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            for fd, _ in poll.ready():
                pump = pumps.get(fd)
                if pump is not None:
                    pump.turn()
                elif fd in listeners:
                    listeners[fd].turn(accept)

    async def _rouse(self) -> None:
        """Watch rested listeners again."""
        while True:
            await self._tired.wait()
            await trio.sleep(ACCEPT_REST_S)
            self._tired = trio.Event()
            while self._resting:
                self._poll.watch(self._resting.pop().fd, True, False)
