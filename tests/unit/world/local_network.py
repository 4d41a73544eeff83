"""A network on one port of this machine, whose connections pass lines to a function of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Peer, Pump, SocketOptions, Tls
from pykbroker.world.system_net import SystemNet


class Line:
    """A connection that passes each received line to a function."""

    def __init__(self, peer: Peer, pump: Pump, on_line: Callable[[Line, bytes], None]) -> None:
        self.peer, self.pump, self._on_line = peer, pump, on_line
        self.out: list[Buffer | FileSlice] = []
        self.ended = self.wants_turn = False
        self.wants_input = True
        self.room: memoryview | None = None
        self.reports: list[tuple[int, int]] = []
        self.reported, self.gone = trio.Event(), trio.Event()
        self._rest = b""

    def received(self, data: bytes) -> None:
        self.ended = not data
        self._rest += data
        self.resume()

    def filled(self, size: int) -> None:
        raise AssertionError("no room was given")

    def resume(self) -> None:
        self.wants_turn = False
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._on_line(self, line)

    def unsent(self, size: int, kept_bytes: int) -> None:
        self.reports.append((size, kept_bytes))
        self.reported.set()

    def closed(self) -> None:
        self.gone.set()


RESET = b"\x01\0\0\0\0\0\0\0"
"""A struct linger with which a close resets the connection."""


class LocalNetwork:
    """A network that listens on one port, and its connections."""

    def __init__(
        self, on_line: Callable[[Line, bytes], None], options: SocketOptions, host: str, tls: Tls | None = None
    ) -> None:
        self.net = SystemNet()
        self.bound = self.net.bind(host, 0, options)
        self.bound.listen(self, tls)
        self.room = 100
        self.pauses = 0
        self.refuses = False
        self.lines: list[Line] = []
        self.connected = trio.Event()
        self.streams: list[trio.SocketStream] = []
        self._on_line = on_line

    def has_room(self) -> bool:
        return self.room > 0

    def paused(self) -> None:
        self.pauses += 1

    def __call__(self, peer: Peer, pump: Pump) -> Line | None:
        if self.refuses:
            return None
        self.room -= 1
        line = Line(peer, pump, self._on_line)
        self.lines.append(line)
        self.connected.set()
        return line

    async def connect(self) -> trio.SocketStream:
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.bound.port))
        return self.streams[-1]


@asynccontextmanager
async def served(
    on_line: Callable[[Line, bytes], None],
    options: SocketOptions = SocketOptions(),  # noqa: B008
    host: str = "127.0.0.1",
    tls: Tls | None = None,
) -> AsyncIterator[LocalNetwork]:
    network = LocalNetwork(on_line, options, host, tls)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.net.run)
        yield network
        nursery.cancel_scope.cancel()
    for stream in network.streams:
        await stream.aclose()


async def read_exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = await stream.receive_some(size - len(data))
        assert chunk, f"closed after {len(data)} of {size} bytes"
        data += chunk
    return data


def echo(line: Line, data: bytes) -> None:
    line.out.append(data + b"\n")
