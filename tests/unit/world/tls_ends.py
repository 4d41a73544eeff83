"""Both ends of a connection with TLS: a pump on a socket pair, and a client that works in memory."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter_ns
from typing import Any

import trustme

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Tls
from pykbroker.world.system_handshakes import Handshakes
from pykbroker.world.system_pump import Homes, SocketPump
from pykbroker.world.system_tls_pump import ReadBuffers, TlsPump

CURVE = trustme.KeyType.ECDSA


@cache
def authority(name: str) -> trustme.CA:
    return trustme.CA(organization_name=name, key_type=CURVE)


@cache
def server_context(*, asks: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    authority("ours").issue_cert("localhost", key_type=CURVE).configure_cert(context)
    authority("ours").configure_trust(context)
    context.verify_mode = asks
    return context


@cache
def client_context(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, signed_by: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    authority("ours").configure_trust(context)
    if signed_by:
        authority(signed_by).issue_cert("alice", key_type=CURVE).configure_cert(context)
    return context


class TestTls:
    """The TLS of a listener, which keeps what it is told."""

    __test__ = False

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.certificates: list[bytes | None] = []
        self.errors: list[ssl.SSLError] = []

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, start: bytes) -> ssl.SSLObject | None:
        if self._context.protocol == ssl.PROTOCOL_TLS_CLIENT:
            return self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        return self._context.wrap_bio(incoming, outgoing, server_side=True)

    def secured(self, connection: Any, certificate: bytes | None, cipher: tuple[str, str, int]) -> None:
        self.certificates.append(certificate)

    def failed(self, connection: Any, error: ssl.SSLError) -> None:
        self.errors.append(error)


class Watched:
    """A poller of one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.reads = self.writes = False

    def watch(self, fd: int, reads: bool, writes: bool) -> None:
        self.reads, self.writes = reads, writes

    def forget(self, fd: int) -> None:
        self.reads = self.writes = False

    @property
    def is_ready(self) -> bool:
        sockets = [self._socket]
        found = select.select(sockets if self.reads else [], sockets if self.writes else [], [], 0)
        return bool(found[0] or found[1])


class Taker:
    """A connection that keeps what it receives, with or without a room for it."""

    def __init__(self) -> None:
        self.out: list[Buffer | FileSlice] = []
        self.ended = self.wants_turn = False
        self.wants_input = True
        self.room: memoryview | None = None
        self.got = bytearray()
        self.calls: list[int] = []
        self.reports: list[tuple[int, int]] = []
        self.is_closed = self.ends_at_end = False
        self.ends = 0
        self.resumes = 0
        self.turns = 0
        """The number of further turns that it wants after each call."""

    def received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.got += data
        self.calls.append(len(data))
        self.wants_turn = self.turns > 0 and len(data) > 0
        if not data:
            self.ends += 1
            self.wants_input = False
            self.ended = self.ends_at_end

    def filled(self, size: int) -> None:
        assert self.room is not None
        self.got += self.room[:size]
        self.calls.append(size)
        self.room = self.room[size:] or None

    def resume(self) -> None:
        assert self.wants_turn
        self.wants_turn = False
        self.resumes += 1

    def unsent(self, size: int, kept_bytes: int) -> None:
        self.reports.append((size, kept_bytes))

    def closed(self) -> None:
        assert not self.is_closed
        self.is_closed = True
        self.out.clear()


class Ends:
    """A pump of the server's end, and a client in memory whose bytes a test passes on."""

    def __init__(self, tls: Any, client: ssl.SSLContext, connection: Taker) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.poll, self.tls, self.taker = Watched(self.near), tls, connection
        self.pumps: dict[int, SocketPump] = {}
        self.handshakes = Handshakes(perf_counter_ns)
        poll: Any = self.poll
        self.last: dict[int, SocketPump] = {}
        homes = Homes(self.pumps, self.last)
        self.pump = TlsPump(self.near, poll, homes, lambda _pump: None, self.handshakes, ReadBuffers(), self.tls)
        self.pump.key = "far"
        self.pump.start(self.taker)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def serve(self) -> None:
        """Serve the pump while it is ready, as the network does."""
        while self.pump.is_open and (self.poll.is_ready or self.handshakes.waiting):
            if self.handshakes.waiting:
                self.handshakes.step(others_wait=False)
            else:
                self.pump.turn()

    def send(self, data: bytes, sizes: int = 1 << 20) -> None:
        """Send bytes to the pump in pieces of this size, each of which it handles before the next."""
        for pos in range(0, len(data), sizes):
            if self.pump.is_open:
                self.far.send(data[pos : pos + sizes])
                self.serve()

    def pull(self, size: int = 1 << 20) -> bytes:
        """Return what the pump has sent, once the client has taken it into its memory."""
        try:
            data = self.far.recv(size)
        except BlockingIOError:
            return b""
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()
        return data

    def shake(self, sizes: int = 1 << 20) -> None:
        """Do the whole handshake, in pieces of this size in both directions."""
        while True:
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.send(self.outgoing.read(), sizes)
                self.serve()
                self.pull(sizes)
            else:
                break
        self.send(self.outgoing.read(), sizes)
        self.serve()

    def sealed(self, *parts: bytes) -> bytes:
        """Return the records of the client, one for each part."""
        for part in parts:
            self.client.write(part)
        return self.outgoing.read()

    def read(self, size: int) -> bytes:
        """Return so many bytes that the pump has sent, opened by the client."""
        got = bytearray()
        while len(got) < size:
            try:
                data = self.client.read(size - len(got))
            except ssl.SSLWantReadError:
                self.serve()
                if not self.pull() and not self.poll.is_ready:
                    break
            else:
                if not data:
                    break
                got += data
        return bytes(got)


@contextmanager
def ends(
    client: ssl.SSLContext | None = None,
    server: ssl.SSLContext | None = None,
    *,
    shaken: bool = True,
    tls: Tls | None = None,
    connection: Taker | None = None,
) -> Iterator[Ends]:
    both = Ends(tls or TestTls(server or server_context()), client or client_context(), connection or Taker())
    try:
        if shaken:
            both.shake()
        yield both
    finally:
        both.pump.close()
        both.far.close()
