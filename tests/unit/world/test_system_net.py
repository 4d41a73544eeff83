"""The poller over real sockets: bytes in, bytes and slices of files out, peers that stall, leave or flood."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Peer, Pump
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_net import SystemNet
from pykbroker.world.system_off_loop import SystemOffLoop


class Line:
    """A connection that hands lines to a function."""

    def __init__(self, peer: Peer, pump: Pump, on_line: Callable[[Line, bytes], None]) -> None:
        self.peer, self.pump, self._on_line = peer, pump, on_line
        self.out: list[Buffer | FileSlice] = []
        self.ended = False
        self.wants_input = True
        self.room: memoryview | None = None
        self.gone = trio.Event()
        self._rest = b""

    def received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(self, line)

    def filled(self, size: int) -> None:
        raise AssertionError("no room was given")

    def resume(self) -> bool:
        return False

    def closed(self) -> None:
        self.gone.set()


class House:
    """A net that listens on one port, and the connections it has made."""

    def __init__(self, on_line: Callable[[Line, bytes], None]) -> None:
        self.net = SystemNet()
        self.bound = self.net.listen("127.0.0.1", 0)
        self.lines: list[Line] = []
        self.streams: list[trio.SocketStream] = []
        self._on_line = on_line

    def accept(self, peer: Peer, pump: Pump) -> Line:
        line = Line(peer, pump, self._on_line)
        self.lines.append(line)
        return line

    async def connect(self) -> trio.SocketStream:
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.bound.port))
        return self.streams[-1]


@asynccontextmanager
async def served(on_line: Callable[[Line, bytes], None]) -> AsyncIterator[House]:
    house = House(on_line)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.net.run, house.accept)
        yield house
        nursery.cancel_scope.cancel()
    for stream in house.streams:
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


async def test_bytes_go_in_and_come_out() -> None:
    async with served(echo) as house:
        stream = await house.connect()
        await stream.send_all(b"one\ntwo\nthr")
        assert await read_exactly(stream, 8) == b"one\ntwo\n"
        await stream.send_all(b"ee\n")
        assert await read_exactly(stream, 6) == b"three\n"
        (line,) = house.lines
        assert line.peer.local_port == house.bound.port
        assert (line.peer.host, line.peer.port) == stream.socket.getsockname()


async def test_slices_of_files_travel_between_buffers(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("log", create=True)
    file.append(content)

    def answer(line: Line, data: bytes) -> None:
        line.out += [b"<", FileSlice(file, 10, len(content) - 10), b"|", FileSlice(file, 0, 10), b">"]

    async with served(answer) as house:
        stream = await house.connect()
        await stream.send_all(b"a\nb\n")
        expected = b"<" + content[10:] + b"|" + content[:10] + b">"
        assert await read_exactly(stream, 2 * len(expected)) == 2 * expected
    file.close()


async def test_a_slice_of_a_file_that_is_gone_ends_its_connection_alone(tmp_path: Path) -> None:
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("log", create=True)
    file.append(b"x" * 100)

    def answer(line: Line, data: bytes) -> None:
        if data == b"echo":
            echo(line, data)
        else:
            line.out.append(FileSlice(file, 1000, 10))

    async with served(answer) as house:
        stream, other = await house.connect(), await house.connect()
        await stream.send_all(b"slice\n")
        assert await stream.receive_some(10) == b""
        await other.send_all(b"echo\n")
        assert await read_exactly(other, 5) == b"echo\n"
    file.close()


async def test_a_peer_that_does_not_read_delays_nobody_and_is_not_read() -> None:
    big = b"z" * 20_000_000

    def answer(line: Line, data: bytes) -> None:
        line.out.append(big if data == b"big" else data + b"\n")

    async with served(answer) as house:
        slow, quick = await house.connect(), await house.connect()
        await slow.send_all(b"big\n")
        for _ in range(3):
            await quick.send_all(b"ping\n")
            assert await read_exactly(quick, 5) == b"ping\n"
        await slow.send_all(b"after\n")
        assert await read_exactly(slow, len(big) + 6) == big + b"after\n"


async def test_an_ended_connection_gets_its_last_words() -> None:
    def answer(line: Line, data: bytes) -> None:
        line.out.append(b"bye")
        line.ended = True

    async with served(answer) as house:
        stream = await house.connect()
        await stream.send_all(b"x\n")
        assert await read_exactly(stream, 3) == b"bye"
        assert await stream.receive_some(1) == b""
        await house.lines[0].gone.wait()


async def test_a_connection_that_wants_no_input_is_not_read() -> None:
    def answer(line: Line, data: bytes) -> None:
        line.wants_input = data != b"stop"
        echo(line, data)

    async with served(answer) as house:
        stream = await house.connect()
        await stream.send_all(b"stop\n")
        assert await read_exactly(stream, 5) == b"stop\n"
        await stream.send_all(b"more\n")
        other = await house.connect()
        await other.send_all(b"x\n")
        assert await read_exactly(other, 2) == b"x\n"
        assert house.lines[0].out == []
        house.lines[0].wants_input = True
        house.lines[0].pump.flush()
        assert await read_exactly(stream, 5) == b"more\n"


async def test_output_that_comes_later_is_flushed() -> None:
    async with served(lambda line, data: None) as house:
        stream = await house.connect()
        await stream.send_all(b"x\n")
        other = await house.connect()
        await other.send_all(b"x\n")
        while len(house.lines) < 2:
            await trio.lowlevel.checkpoint()
        for line in house.lines:
            line.out.append(b"late")
            line.pump.flush()
        assert await read_exactly(stream, 4) == b"late"
        house.lines[0].pump.close()
        house.lines[0].pump.flush()
        house.lines[0].pump.close()
        assert await stream.receive_some(1) == b""


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_peer_that_leaves_is_told_to_its_connection(abrupt: bool) -> None:
    async with served(echo) as house:
        stream = await house.connect()
        await stream.send_all(b"x\n")
        await read_exactly(stream, 2)
        if abrupt:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        await stream.aclose()
        await house.lines[0].gone.wait()


async def test_the_end_of_the_net_closes_everything() -> None:
    async with served(echo) as house:
        stream = await house.connect()
        await stream.send_all(b"x\n")
        await read_exactly(stream, 2)
    assert house.lines[0].gone.is_set()
    with pytest.raises(OSError, match="refused|connect"):
        await trio.open_tcp_stream("127.0.0.1", house.bound.port)


async def test_a_port_in_use_is_refused() -> None:
    async with served(echo) as house:
        with pytest.raises(OSError, match="in use") as refused:
            SystemNet().listen("127.0.0.1", house.bound.port)
        assert refused.value.errno == errno.EADDRINUSE
