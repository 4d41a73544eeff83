"""The pump of a connected socket: one recv in each pass of the loop, one send for all ready replies."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import ConnectionMachine
from pykbroker.world.system_poll import Poll

RECV_BYTES = 65536
MSG_MORE = getattr(socket, "MSG_MORE", 0)
NOTHING, READS, WRITES = range(3)
"""The events that a socket is watched for.

If `wants_turn` is true, the socket is watched for writes, which are ready at once.
"""

logger = logging.getLogger(__name__)


class Homes(NamedTuple):
    """The open pumps of a network, by descriptor: those that are served first in a pass, and last."""

    first: dict[int, SocketPump]
    last: dict[int, SocketPump]


class SocketPump:
    """The pump of one socket. While the socket does not accept more bytes, it is watched for writes and not read."""

    __slots__ = ("_homes", "_poll", "_pumps", "_watch_silence", "_watched", "connection", "fd", "key", "socket")

    def __init__(
        self, sock: socket.socket, poll: Poll, homes: Homes, watch_silence: Callable[[SocketPump], None]
    ) -> None:
        self.socket, self._poll, self._homes, self._watch_silence = sock, poll, homes, watch_silence
        self._pumps = homes.first
        self.fd = sock.fileno()
        self._watched = NOTHING
        self.key = ""
        """The key of the peer's address, for its turns. It is empty if this process has opened the connection."""
        self.connection: ConnectionMachine

    def start(self, connection: ConnectionMachine) -> None:
        """Start to move bytes between the socket and this connection."""
        self.connection = connection
        self._pumps[self.fd] = self
        self._poll.watch(self.fd, False, False)
        self._settle(connection)

    def turn(self) -> None:
        """Serve a ready socket.

        Send unsent output if there is some; otherwise resume the handling of received bytes; otherwise read once.
        """
        connection = self.connection
        try:
            if self._watched == READS:
                if connection.wants_input:
                    self._read(connection)
            elif self._watched == NOTHING:  # only an error or a hang-up is reported then
                connection.ended = True
            elif connection.out:
                self._send(connection)
            else:
                connection.resume()
            self._settle(connection)
        except BlockingIOError:
            return
        except OSError as error:
            self.lose(error)
        except Exception as error:  # noqa: BLE001 - one broken connection must not end the others
            self._broke(error)

    @property
    def is_open(self) -> bool:
        """Whether the pump serves its socket."""
        return self._pumps.get(self.fd) is self

    @property
    def watched(self) -> int:
        """Return the event that the socket is watched for."""
        return self._watched

    def watch(self, event: int) -> None:
        """Watch the socket for this event."""
        if event != self._watched:
            self._poll.watch(self.fd, event == READS, event == WRITES)
            self._watched = event

    def serve_last(self, *, last: bool) -> None:
        """Serve the connection after those of all others in each pass, or like them."""
        self._move(self._homes.last if last else self._homes.first)

    def _move(self, pumps: dict[int, SocketPump]) -> None:
        if self._pumps.get(self.fd) is self:
            del self._pumps[self.fd]
            pumps[self.fd] = self
        self._pumps = pumps

    def flush(self) -> None:
        """Send ready output although the socket was not reported as ready. Do nothing if the socket is closed."""
        if self._pumps.get(self.fd) is self:
            try:
                self._settle(self.connection)
            except OSError as error:
                self.lose(error)
            except Exception as error:  # noqa: BLE001 - as in turn
                self._broke(error)

    def close(self) -> None:
        """Close the socket and notify the connection. A second call does nothing."""
        if self._pumps.get(self.fd) is self:
            del self._pumps[self.fd]
            self._poll.forget(self.fd)
            end(self.socket)
            connection = self.connection
            del self.connection  # the two refer to each other, and a thousand ends a second would be garbage to collect
            connection.closed()

    async def secured(self) -> None:
        """Return at once, since there is no handshake."""

    def end_when_silent(self) -> None:
        """Watch the connection for silence of its peer. Do nothing if the socket is closed."""
        if self.is_open:
            self._watch_silence(self)

    def _read(self, connection: ConnectionMachine) -> None:
        if connection.room is None:
            connection.received(self.socket.recv(RECV_BYTES))
        else:  # a local variable for `room` would keep the buffer alive when the connection replaces it
            connection.filled(self.socket.recv_into(connection.room))

    def _settle(self, connection: ConnectionMachine) -> None:
        """Send ready output, then watch the socket for the next event."""
        # While it is watched for writes, the socket was full at the last attempt: the poller reports when it has room.
        if connection.out and self._watched != WRITES:
            self._send(connection)
        if connection.ended:
            self.close()
            return
        if connection.out:
            self._report_unsent(connection)
        watched = WRITES if connection.out or connection.wants_turn else READS if connection.wants_input else NOTHING
        if watched != self._watched:
            self._poll.watch(self.fd, watched == READS, watched == WRITES)
            self._watched = watched

    def _send(self, connection: ConnectionMachine) -> None:
        """Send as much as the socket takes. Notify the connection when previously unsent output is sent."""
        out = connection.out
        try:
            # Most output has no file slice. To look at each part costs more than the exception for those that have one.
            data = b"".join(out) if len(out) > 1 else out[0]  # type: ignore[arg-type]
            sent = self._send_bytes(data)  # type: ignore[arg-type]
        except TypeError:  # a file slice is not a buffer
            self._send_slices(out)
        else:
            out.clear()
            if sent < len(data):
                out.append(memoryview(data)[sent:])  # type: ignore[arg-type]
        if not out and self._watched == WRITES:
            connection.unsent(0, 0)

    def _report_unsent(self, connection: ConnectionMachine) -> None:
        size = kept_bytes = 0
        for part in connection.out:
            size += len(part)
            kept_bytes += 0 if isinstance(part, FileSlice) else len(part)
        connection.unsent(size, kept_bytes)

    def _send_bytes(self, data: Buffer, flags: int = 0) -> int:
        try:
            return self.socket.send(data, flags)
        except BlockingIOError:
            return 0

    def _send_slices(self, out: list[Buffer | FileSlice]) -> None:
        """Send buffers by sendmsg and file slices by sendfile until the socket takes no more."""
        while out:
            run = next((i for i, part in enumerate(out) if isinstance(part, FileSlice)), len(out))
            if run:
                data = b"".join(out[:run])  # type: ignore[arg-type]
                # The bytes before a slice wait for it, so that a small response leaves in one packet.
                sent = self._send_bytes(data, MSG_MORE if run < len(out) else 0)
                out[:run] = [] if sent == len(data) else [memoryview(data)[sent:]]
                if sent < len(data):
                    return
            elif not self._send_file(out):
                return

    def _send_file(self, out: list[Buffer | FileSlice]) -> bool:
        """Send the slice that is first in `out` by sendfile, and return whether the socket may take more."""
        part = out[0]
        assert isinstance(part, FileSlice)
        try:
            sent = os.sendfile(self.fd, part.file.fileno(), part.offset, part.size)  # type: ignore[attr-defined]
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EBUSY:  # on macOS and the BSDs, a busy file is tried again in the next pass
                raise
            return False
        # sendfile returns 0 at the end of a file: the segment was truncated, and the promised bytes do not exist.
        if not sent:
            raise OSError(errno.EIO, f"{part.size} bytes at {part.offset} of a log segment are missing")
        if sent == part.size:
            del out[0]
        else:
            out[0] = FileSlice(part.file, part.offset + sent, part.size - sent)
        return True

    def lose(self, error: OSError) -> None:
        """Close the connection after an error of its socket or its network."""
        logger.debug("lost a connection: %s", error)
        self.close()

    def _broke(self, error: Exception) -> None:
        logger.error("closing a connection after an internal error of this broker", exc_info=error)
        self.close()


def end(sock: socket.socket) -> None:
    """Shut a socket down and close it.

    A forked process has copies of all sockets: without the shutdown, its copy would keep the connection or port open.
    """
    with suppress(OSError):  # the peer has closed the connection, or the socket does not listen yet
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
