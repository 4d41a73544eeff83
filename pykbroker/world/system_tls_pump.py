"""The pump of a connection with TLS: records are opened and sealed in memory (`ssl.MemoryBIO`).

1. All pumps share one buffer for received bytes and one for opened ones. An idle connection has no buffer of this
   process. OpenSSL keeps what the connection's BIOs have grown to, and `PIECE_BYTES` limits that.
2. Bytes that were received but not opened make no socket readable. A connection that refuses input therefore keeps its
   socket watched for writes, which are ready at once, as soon as it wants input again.
3. Bytes are sealed only when the socket is about to take them. Sealed bytes that it has not taken are the first buffer
   of `ConnectionMachine.out`, so that they count as unsent.
4. A handshake waits for its share of the event loop (`system_handshakes`).
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import ConnectionMachine, Tls
from pykbroker.world.system_handshakes import Handshakes
from pykbroker.world.system_poll import Poll
from pykbroker.world.system_pump import NOTHING, READS, RECV_BYTES, WRITES, Homes, SocketPump

PIECE_BYTES = 32_768
"""The number of bytes that enter or leave a BIO at once. A BIO keeps 4/3 of its largest content until it is freed."""
SEALED_BYTES = 262_144
"""The number of bytes that are sealed before the socket is offered them."""
RECEIVED_BYTES = 262_144
"""The number of bytes that are received at once for a connection with room for as many."""
NEWCOMER_BYTES = 4096
"""The number of bytes that are received at once in a handshake, and for a client that has not logged in.

Those that the connection does not take wait in memory that no budget counts, for as long as strangers like.
"""
NO_BYTES = memoryview(b"")


class NoTls:
    """The state of TLS before the first bytes of a peer."""

    def do_handshake(self) -> None:
        """Raise SSLWantReadError."""
        raise ssl.SSLWantReadError

    def unwrap(self) -> None:
        """Raise SSLError."""
        raise ssl.SSLError


NO_TLS = NoTls()


def do_nothing(_error: OSError | None) -> None:
    """Do nothing."""


class ReadBuffers:
    """The received and the opened bytes of the one connection of a network that reads now.

    Each network has its own, since the networks of several threads read at the same time: `recv_into` and OpenSSL let
    other threads run.
    """

    def __init__(self) -> None:
        self.received = memoryview(bytearray(RECEIVED_BYTES))
        self.received_small = self.received[:RECV_BYTES]
        self.opened = memoryview(bytearray(RECV_BYTES))


class TlsPump(SocketPump):
    """The pump of one socket with TLS. `handshakes` has the pumps whose handshake is not done, and `pumps` all others.

    During the handshake the connection neither receives nor sends anything.
    """

    __slots__ = (
        "_buffers",
        "_handshakes",
        "_home",
        "_incoming",
        "_is_over",
        "_is_sealed",
        "_is_secured",
        "_on_secured",
        "_outgoing",
        "_ssl",
        "_start",
        "_tls",
        "_unopened",
        "_waits",
    )

    def __init__(
        self,
        sock: socket.socket,
        poll: Poll,
        homes: Homes,
        watch_silence: Callable[[SocketPump], None],
        handshakes: Handshakes,
        buffers: ReadBuffers,
        tls: Tls,
    ) -> None:
        super().__init__(sock, poll, homes, watch_silence)
        self._home, self._pumps = homes.first, handshakes.pumps
        self._buffers, self._handshakes, self._tls = buffers, handshakes, tls
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl: Any = NO_TLS
        self._start = b""
        """The first bytes of the peer, which are too few to begin."""
        self._unopened = NO_BYTES
        """Received bytes that have not entered the BIO."""
        self._waits = False
        """Whether bytes, or the end, wait until the connection wants input."""
        self._is_over = False
        """Whether the peer sends nothing more."""
        self._is_sealed = False
        """Whether the first buffer of `ConnectionMachine.out` is sealed."""
        self._is_secured = False
        """Whether the handshake is done."""
        self._on_secured: Callable[[OSError | None], None] = do_nothing

    def start(self, connection: ConnectionMachine) -> None:
        """Start the handshake."""
        self._handshakes.begin(self)
        if not self.key:
            self._ssl = self._tls.begin(self._incoming, self._outgoing, b"")
        super().start(connection)
        if not self.key:  # a client speaks first
            self.watch(WRITES)

    async def secured(self) -> None:
        """Wait until the handshake is done. Raise OSError if it fails, and close the connection if cancelled."""
        ended, errors = trio.Event(), list[OSError]()

        def end(error: OSError | None) -> None:
            errors.extend([error] if error is not None else [])
            ended.set()

        self._on_secured = end
        try:
            await ended.wait()
        except BaseException:
            self.close()
            raise
        for error in errors:
            raise error

    def turn(self) -> None:
        """Serve a ready socket, as the plain pump does, or open bytes that were received before."""
        connection, watched = self.connection, self._watched
        try:
            if not (self._is_secured or self._is_sealed):
                if watched != NOTHING:
                    self.watch(NOTHING)
                    self._handshakes.wait(self)
                return
            if watched == READS:
                if connection.wants_input:
                    self._read(connection)
            elif watched == NOTHING:  # only an error or a hang-up is reported then
                connection.ended = True
            elif connection.out:
                self._send(connection)
            elif connection.wants_turn:
                connection.resume()
            else:
                self._open(connection)
            self._settle(connection)
        except BlockingIOError:
            return
        except OSError as error:
            self.lose(error)
        except Exception as error:  # noqa: BLE001 - as in the plain pump
            self._broke(error)

    def close(self) -> None:
        """Send what TLS has to say last, an alert or the end, as far as the socket takes it. Then close the socket."""
        if self.is_open:
            with suppress(ssl.SSLError):  # a failed handshake has no end to announce, and the peer's is not awaited
                self._ssl.unwrap()
            if self._outgoing.pending and not self._is_sealed:
                with suppress(OSError):
                    self.socket.send(self._outgoing.read())
            super().close()
            self._handshakes.forget(self)
            self._tell(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def _move(self, pumps: dict[int, SocketPump]) -> None:
        self._home = pumps
        if self._is_secured:
            super()._move(pumps)

    def lose(self, error: OSError) -> None:
        """Close the connection after an error of its socket, its network or of TLS."""
        if isinstance(error, ssl.SSLError) and self.is_open:
            self._tls.failed(self.connection, error)
        self._tell(error)
        super().lose(error)

    # ---- the handshake

    @property
    def has_begun(self) -> bool:
        """Whether the first message of a client has been sent or handled."""
        return self._ssl is not NO_TLS

    def shake(self) -> None:
        """Handle what the peer has sent of the handshake, and answer."""
        connection = self.connection
        try:
            with suppress(BlockingIOError):  # nothing is there before the first message of a client
                received = self._buffers.received
                size = self.socket.recv_into(received[:NEWCOMER_BYTES])
                if not size:
                    self.lose(ConnectionResetError(errno.ECONNRESET, "the peer ended the connection in the handshake"))
                    return
                if self._ssl is NO_TLS:
                    self._begin(self._start + received[:size])
                else:
                    self._incoming.write(received[:size])
            with suppress(ssl.SSLWantReadError):
                self._ssl.do_handshake()
                self._secured(connection)
            self._settle(connection)
        except OSError as error:
            self.lose(error)
        except Exception as error:  # noqa: BLE001 - as in turn
            self._broke(error)

    def _begin(self, start: bytes) -> None:
        """Begin TLS with the first bytes of the peer, unless they are too few."""
        state = self._tls.begin(self._incoming, self._outgoing, start)
        self._start = start if state is None else b""
        if state is not None:
            self._ssl = state
            self._incoming.write(start)

    def _secured(self, connection: ConnectionMachine) -> None:
        """Let the connection move its bytes. Those that came with the end of the handshake wait in the BIO."""
        self._is_secured, self._waits = True, self._incoming.pending > 0
        self._handshakes.forget(self)
        self._pumps = self._home
        self._pumps[self.fd] = self
        cipher = self._ssl.cipher()
        assert cipher is not None
        self._tls.secured(connection, self._ssl.getpeercert(binary_form=True), cipher)
        self._tell(None)

    def _tell(self, error: OSError | None) -> None:
        """Tell `secured` once whether the handshake is done or has failed."""
        told, self._on_secured = self._on_secured, do_nothing
        told(error)

    # ---- receiving

    def _read(self, connection: ConnectionMachine) -> None:
        # What the connection has no room for may have to wait in memory that no budget counts.
        buffers, room = self._buffers, 0 if connection.room is None else len(connection.room)
        if self._pumps is self._homes.last:
            received = buffers.received[:NEWCOMER_BYTES]
        else:
            received = buffers.received[: room + RECV_BYTES] if room else buffers.received_small
        size = self.socket.recv_into(received)
        if size > PIECE_BYTES:
            self._unopened = received[:size]
        elif size:
            self._incoming.write(received[:size])
            if connection.room is None and not self._waits and not self._open_few(connection, size):
                return
        else:
            self._is_over = True
        self._open(connection)
        if self._unopened:  # the buffer is for the next connection
            self._unopened = memoryview(bytes(self._unopened))

    def _open_few(self, connection: ConnectionMachine, size: int) -> bool:
        """Pass one record, which has at most `size` bytes as a rule, to the connection. Return whether there is more.

        This is the way of small requests.
        """
        try:
            opened = self._ssl.read(size)
        except ssl.SSLWantReadError:
            return False
        if not opened:
            self._is_over = True
            return True
        connection.received(opened)
        return self._incoming.pending > 0 or self._ssl.pending() > 0

    def _open(self, connection: ConnectionMachine) -> None:
        """Pass opened bytes to the connection while it wants input. All others wait."""
        while connection.wants_input and not (connection.wants_turn or connection.ended):
            if connection.room is None:
                opened = self._buffers.opened
                size = self._fill(opened)
                if size:
                    connection.received(bytes(opened[:size]))
                    continue
            else:  # a local variable for `room` would keep the buffer alive when the connection replaces it
                size = self._fill(connection.room)
                if size:
                    connection.filled(size)
                    continue
            self._waits = self._is_over
            if self._is_over:
                connection.received(b"")
            return
        self._waits = True

    def _fill(self, opened: memoryview) -> int:
        """Open records into a buffer until it is full or no record is complete, and return the number of bytes."""
        read, incoming, size, room = self._ssl.read, self._incoming, 0, len(opened)
        while size < room and not self._is_over and (incoming.pending or self._ssl.pending() or self._feed()):
            is_last = not self._unopened
            try:
                while size < room:
                    got: Any = read(room - size, opened[size:])  # bytes only without a buffer
                    if not got:
                        self._is_over, self._unopened = True, NO_BYTES
                        break
                    size += got
                    # Before the last piece the error says that it is used up, which costs less than to ask each time.
                    if is_last and not incoming.pending:
                        break
            except ssl.SSLWantReadError:
                if is_last:
                    break
        return size

    def _feed(self) -> bool:
        """Move the next received bytes into the BIO, and return whether there were some."""
        unopened = self._unopened
        if not unopened:
            return False
        self._incoming.write(unopened[:PIECE_BYTES])
        self._unopened = unopened[PIECE_BYTES:]
        return True

    # ---- sending

    def _settle(self, connection: ConnectionMachine) -> None:
        """Send what there is to send, and watch the socket for what the connection needs next."""
        out = connection.out
        if self._outgoing.pending and not self._is_sealed:  # messages of TLS itself, such as those of the handshake
            out.insert(0, self._outgoing.read())
            self._is_sealed = True
        if out and self._watched != WRITES:
            self._send(connection)
        if connection.ended:
            self.close()
            return
        if out:
            self._report_unsent(connection)
        if not self._is_secured:
            self.watch(WRITES if self._is_sealed else READS)
        elif out or connection.wants_turn or (self._waits and connection.wants_input):
            self.watch(WRITES)
        else:
            self.watch(READS if connection.wants_input else NOTHING)

    def _send(self, connection: ConnectionMachine) -> None:
        """Seal and send until the socket takes no more."""
        out = connection.out
        while out and (self._is_sealed or self._is_secured):
            data = out.pop(0) if self._is_sealed else self._seal(out)
            assert not isinstance(data, FileSlice)
            sent = self._send_bytes(data)
            self._is_sealed = sent < len(data)
            if self._is_sealed:
                out.insert(0, memoryview(data)[sent:])
                return
        if not out and self._watched == WRITES:
            connection.unsent(0, 0)

    def _seal(self, out: list[Buffer | FileSlice]) -> bytes:
        """Take the first `SEALED_BYTES` out of `out`, and return them sealed."""
        try:
            data: Any = b"".join(out) if len(out) > 1 else out[0]  # type: ignore[arg-type]
            if type(data) is not bytes:
                data = memoryview(data)
        except TypeError:  # a file slice is not a buffer
            data = b"".join(first_bytes(out))
        else:
            out.clear()
        write, outgoing, size = self._ssl.write, self._outgoing, len(data)
        if size <= PIECE_BYTES:
            write(data)
            return outgoing.read()
        view, parts = memoryview(data), []
        if size > SEALED_BYTES:
            out.append(view[SEALED_BYTES:])
        for pos in range(0, min(size, SEALED_BYTES), PIECE_BYTES):
            write(view[pos : min(pos + PIECE_BYTES, SEALED_BYTES)])
            parts.append(outgoing.read())
        return b"".join(parts)


def first_bytes(out: list[Buffer | FileSlice]) -> list[Buffer]:
    """Take the first `SEALED_BYTES` of buffers and file slices out of `out`, and return them."""
    taken: list[Buffer] = []
    room = SEALED_BYTES
    while out and room:
        part = out[0]
        if isinstance(part, FileSlice):
            fd = part.file.fileno()  # type: ignore[attr-defined]
            data: Buffer = os.pread(fd, min(room, part.size), part.offset)
            if not data:  # the end of a file: the segment was truncated, and the promised bytes do not exist
                raise OSError(errno.EIO, f"{part.size} bytes at {part.offset} of a log segment are missing")
            rest: Buffer | FileSlice = FileSlice(part.file, part.offset + len(data), part.size - len(data))
        else:
            data, rest = memoryview(part)[:room], memoryview(part)[room:]
        if len(rest):
            out[0] = rest
        else:
            del out[0]
        taken.append(data)
        room -= len(data)
    return taken
