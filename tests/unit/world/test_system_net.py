"""Tests of the poller over real sockets: buffers and file slices, and peers that stall, disconnect or flood."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.world.disk import FileSlice
from pykbroker.world.net import Peer, Pump, SocketOptions
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_net import ACCEPT_REST_S, SystemNet
from pykbroker.world.system_off_loop import SystemOffLoop
from pykbroker.world.system_pump import SocketPump
from tests.unit.world.local_network import RESET, Line, LocalNetwork, echo, read_exactly, served

nobody: Any = None
"""An acceptor that is never called, because the network does not run."""


async def test_received_bytes_reach_the_connection_and_its_output_reaches_the_peer() -> None:
    async with served(echo) as network:
        stream = await network.connect()
        await stream.send_all(b"one\ntwo\nthr")
        assert await read_exactly(stream, 8) == b"one\ntwo\n"
        await stream.send_all(b"ee\n")
        assert await read_exactly(stream, 6) == b"three\n"
        (line,) = network.lines
        assert line.peer.local_port == network.bound.port
        assert (line.peer.host, line.peer.port) == stream.socket.getsockname()


async def test_file_slices_and_buffers_are_sent_in_order(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("log", create=True)
    file.append(content)

    def answer(line: Line, data: bytes) -> None:
        line.out += [b"<", FileSlice(file, 10, len(content) - 10), b"|", FileSlice(file, 0, 10), b">"]

    async with served(answer) as network:
        stream = await network.connect()
        await stream.send_all(b"a\nb\n")
        expected = b"<" + content[10:] + b"|" + content[:10] + b">"
        assert await read_exactly(stream, 2 * len(expected)) == 2 * expected
    file.close()


async def test_a_file_that_is_busy_is_sent_in_a_later_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("segment", create=True)
    file.append(b"slice")
    refusals, sendfile = [errno.EBUSY, errno.EAGAIN, errno.EBUSY], os.sendfile

    def busy(*words: int) -> int:
        if refusals:
            number = refusals.pop()
            raise OSError(number, os.strerror(number))
        return sendfile(*words)

    monkeypatch.setattr(os, "sendfile", busy)
    async with served(lambda line, data: line.out.append(FileSlice(file, 0, 5))) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        assert await read_exactly(stream, 5) == b"slice"
    assert not refusals


async def test_a_slice_beyond_the_end_of_its_file_ends_only_its_connection(tmp_path: Path) -> None:
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("log", create=True)
    file.append(b"x" * 100)

    def answer(line: Line, data: bytes) -> None:
        if data == b"echo":
            echo(line, data)
        else:
            line.out.append(FileSlice(file, 1000, 10))

    async with served(answer) as network:
        stream, other = await network.connect(), await network.connect()
        await stream.send_all(b"slice\n")
        assert await stream.receive_some(10) == b""
        await other.send_all(b"echo\n")
        assert await read_exactly(other, 5) == b"echo\n"
    file.close()


async def test_a_peer_that_does_not_read_delays_no_other_peer_and_is_not_read_from() -> None:
    big = b"z" * 20_000_000

    def answer(line: Line, data: bytes) -> None:
        line.out.append(big if data == b"big" else data + b"\n")

    async with served(answer) as network:
        slow, quick = await network.connect(), await network.connect()
        await slow.send_all(b"big\n")
        for _ in range(3):
            await quick.send_all(b"ping\n")
            assert await read_exactly(quick, 5) == b"ping\n"
        await slow.send_all(b"after\n")
        reports = network.lines[0].reports[:]
        assert all(0 < size == kept_bytes < len(big) for size, kept_bytes in reports)
        assert await read_exactly(slow, len(big) + 6) == big + b"after\n"
        assert network.lines[0].reports[-1] == (0, 0)
        assert network.lines[1].reports == []


async def test_output_added_while_a_peer_does_not_read_counts_as_unsent() -> None:
    async with served(lambda line, data: line.out.append(bytes(20_000_000))) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        await network.connected.wait()
        (line,) = network.lines
        await line.reported.wait()
        unsent, kept = line.reports[-1]
        line.out.append(bytes(1000))
        line.pump.flush()
        assert line.reports[-1] == (unsent + 1000, kept + 1000)


async def test_an_error_of_one_connection_ends_only_that_connection(caplog: pytest.LogCaptureFixture) -> None:
    def answer(line: Line, data: bytes) -> None:
        assert data != b"fault", "planted"
        echo(line, data)

    async with served(answer) as network:
        bad, good = await network.connect(), await network.connect()
        await bad.send_all(b"fault\n")
        assert await bad.receive_some(1) == b""
        await good.send_all(b"x\n")
        assert await read_exactly(good, 2) == b"x\n"
    assert ["planted" in caplog.text, len(caplog.records)] == [True, 1]


async def test_an_ended_connection_sends_its_output_before_it_closes() -> None:
    def answer(line: Line, data: bytes) -> None:
        line.out.append(b"bye")
        line.ended = True

    async with served(answer) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        assert await read_exactly(stream, 3) == b"bye"
        assert await stream.receive_some(1) == b""
        await network.lines[0].gone.wait()


async def test_a_connection_that_wants_no_input_is_not_read_from() -> None:
    def answer(line: Line, data: bytes) -> None:
        line.wants_input = data != b"stop"
        echo(line, data)

    async with served(answer) as network:
        stream = await network.connect()
        await stream.send_all(b"stop\n")
        assert await read_exactly(stream, 5) == b"stop\n"
        await stream.send_all(b"more\n")
        other = await network.connect()
        await other.send_all(b"x\n")
        assert await read_exactly(other, 2) == b"x\n"
        assert network.lines[0].out == []
        network.lines[0].wants_input = True
        network.lines[0].pump.flush()
        assert await read_exactly(stream, 5) == b"more\n"


async def unwatched(network: LocalNetwork) -> trio.SocketStream:
    """Return a peer whose connection wants no input, and is watched for nothing."""
    stream = await network.connect()
    await stream.send_all(b"x\n")
    assert await read_exactly(stream, 2) == b"x\n"
    network.lines[0].wants_input = False
    network.lines[0].pump.flush()
    return stream


async def test_a_hang_up_of_a_connection_that_nothing_watches_closes_it() -> None:
    async with served(echo) as network:
        stream = await unwatched(network)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await stream.aclose()
        with trio.fail_after(10):
            await network.lines[0].gone.wait()


async def test_no_hang_up_is_reported_while_the_peer_may_still_read() -> None:
    async with served(echo) as network:
        stream = await unwatched(network)
        await stream.send_all(b"more\n")
        await stream.send_eof()
        other = await network.connect()
        await other.send_all(b"y\n")
        assert await read_exactly(other, 2) == b"y\n"
        assert not network.lines[0].gone.is_set()
        network.lines[0].out.append(b"late")
        network.lines[0].pump.flush()
        assert await read_exactly(stream, 4) == b"late"


async def test_flush_sends_output_that_was_added_between_the_polls_of_a_connection() -> None:
    async with served(lambda line, data: None) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        other = await network.connect()
        await other.send_all(b"x\n")
        while len(network.lines) < 2:
            await trio.lowlevel.checkpoint()
        for line in network.lines:
            line.out.append(b"late")
            line.pump.flush()
        assert await read_exactly(stream, 4) == b"late"
        network.lines[0].pump.close()
        network.lines[0].pump.flush()
        network.lines[0].pump.close()
        assert await stream.receive_some(1) == b""


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_peer_that_disconnects_closes_its_connection(abrupt: bool) -> None:
    async with served(echo) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        await read_exactly(stream, 2)
        if abrupt:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await stream.aclose()
        await network.lines[0].gone.wait()


async def test_a_connection_that_has_closed_is_freed_at_once() -> None:
    gc.disable()
    try:
        async with served(echo) as network:
            stream = await network.connect()
            await network.connected.wait()
            gone, freed = network.lines[0].gone, weakref.ref(network.lines[0])
            await stream.aclose()
            await gone.wait()
            await trio.testing.wait_all_tasks_blocked()
            network.lines.clear()
            assert freed() is None
    finally:
        gc.enable()


async def test_a_peer_that_shuts_down_its_sending_side_is_sent_all_output() -> None:
    size = 8 << 20
    ends: list[bool] = []

    def end(data: bytes) -> None:
        ends.append(line.wants_input)
        assert not data
        line.wants_input, line.ended = False, len(ends) > 1

    async with served(echo) as network:
        stream = await network.connect()
        await network.connected.wait()
        (line,) = network.lines
        line.received = end  # type: ignore[method-assign]
        await stream.send_eof()
        while not ends:
            await trio.lowlevel.checkpoint()
        line.out.append(bytes(size))
        line.wants_input = True
        line.pump.flush()
        assert await read_exactly(stream, size) == bytes(size)
        assert await stream.receive_some(1) == b""
        await line.gone.wait()
    assert ends == [True, True]


async def test_cancelling_run_closes_all_connections_and_listeners() -> None:
    async with served(echo) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        await read_exactly(stream, 2)
    assert network.lines[0].gone.is_set()
    with pytest.raises(OSError, match="refused|connect"):
        await trio.open_tcp_stream("127.0.0.1", network.bound.port)


async def test_binding_a_port_in_use_fails() -> None:
    async with served(echo) as network:
        with pytest.raises(OSError, match="in use") as refused:
            SystemNet().bind("127.0.0.1", network.bound.port)
        assert refused.value.errno == errno.EADDRINUSE


async def test_connections_to_a_bound_address_are_refused_until_it_listens() -> None:
    net = SystemNet()
    bound = net.bind("127.0.0.1", 0)
    with pytest.raises(OSError, match="refused|connect"):
        await trio.open_tcp_stream("127.0.0.1", bound.port)
    bound.listen(nobody)
    await (await trio.open_tcp_stream("127.0.0.1", bound.port)).aclose()
    bound.close()


async def test_a_bound_address_is_in_use_before_it_listens() -> None:
    first, second = SystemNet(), SystemNet()
    bound = first.bind("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use") as refused:
        second.bind("127.0.0.1", bound.port)
    assert refused.value.errno == errno.EADDRINUSE
    bound.close()
    second.bind("127.0.0.1", bound.port).close()


async def test_the_next_broker_can_bind_an_address_while_old_connections_linger() -> None:
    async with served(echo) as network:
        stream = await trio.open_tcp_stream("127.0.0.1", network.bound.port)
        await stream.send_all(b"hello\n")
        await read_exactly(stream, 6)
    # The peer closed first, so the broker's socket is in TIME_WAIT once it is closed, too.
    assert not await stream.receive_some()
    await stream.aclose()
    again = SystemNet().bind("127.0.0.1", network.bound.port)
    again.listen(nobody)
    again.close()


@contextmanager
def forked() -> Iterator[None]:
    """Fork a process that holds copies of all descriptors until the block ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child of a process with threads only waits
        child = os.fork()
    if not child:
        signal.pause()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def test_a_forked_process_keeps_neither_connections_nor_the_port_open() -> None:
    async with AsyncExitStack() as living:
        async with served(echo) as house:
            stream = await house.connect()
            await stream.send_all(b"x\n")
            await read_exactly(stream, 2)
            living.enter_context(forked())
            house.lines[0].pump.close()
            assert not await stream.receive_some()
        with pytest.raises(OSError, match="refused|connect"):
            await trio.open_tcp_stream("127.0.0.1", house.bound.port)
        again = SystemNet().bind("127.0.0.1", house.bound.port)
        again.listen(nobody)
        again.close()


async def test_a_connection_with_more_input_resumes_after_the_other_connections() -> None:
    order = []

    def answer(line: Line, data: bytes) -> None:
        order.append((network.lines.index(line), data))
        if data == b"more" and len(order) < 6:
            line._rest += b"more\n"
            line.wants_turn = True
        elif data == b"more":
            line.out.append(b"done\n")

    async with served(answer) as network:
        busy, other = await network.connect(), await network.connect()
        await busy.send_all(b"more\n")
        assert await read_exactly(busy, 5) == b"done\n"
        await other.send_all(b"x\n")
        while len(order) < 7:
            await trio.lowlevel.checkpoint()
    assert order == [(0, b"more")] * 6 + [(1, b"x")]


async def test_connections_wait_in_the_backlog_while_the_broker_has_no_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(echo) as network:
        network.room = 1
        first = await network.connect()
        await first.send_all(b"x\n")
        assert await read_exactly(first, 2) == b"x\n"
        await trio.sleep(5)
        assert (network.room, network.pauses) == (0, 0)
        second = await network.connect()
        for stream in (first, second):
            await stream.send_all(b"x\n")
        assert await read_exactly(first, 2) == b"x\n"
        await trio.sleep(5)
        assert len(network.lines) == 1
        assert network.pauses > 1
        network.room = 1
        assert await read_exactly(second, 2) == b"x\n"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_accepting_pauses_while_the_process_is_out_of_descriptors(
    number: int,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The connection stays in the backlog and the listener stays ready, so without a pause the loop would be busy."""
    refusals, accepted = 0, socket.socket.accept

    def accept(sock: socket.socket) -> tuple[socket.socket, tuple[str, int]]:
        nonlocal refusals
        if refusals < 5:
            refusals += 1
            raise OSError(number, os.strerror(number))
        return accepted(sock)

    async with served(echo) as network:
        monkeypatch.setattr(network.bound, "_socket", Accepting(network.bound._socket, accept))
        began = trio.current_time()
        stream = await network.connect()
        await stream.send_all(b"a\n")
        assert await read_exactly(stream, 2) == b"a\n"
        assert trio.current_time() - began >= 5 * ACCEPT_REST_S
    assert refusals == 5
    assert caplog.text.count("Raise the limit of open files") == 1


class Accepting:
    """A listening socket whose `accept` is replaced."""

    def __init__(self, sock: socket.socket, accept: Callable[[socket.socket], object]) -> None:
        self.accept, self.shutdown, self.close = lambda: accept(sock), sock.shutdown, sock.close


async def test_a_refused_peer_is_disconnected() -> None:
    async with served(echo) as network:
        network.refuses = True
        stream = await network.connect()
        assert await stream.receive_some(1) == b""
        network.refuses = False
        stream = await network.connect()
        await stream.send_all(b"x\n")
        assert await read_exactly(stream, 2) == b"x\n"


@pytest.mark.parametrize("size", [-1, 8192, 102_400])
async def test_socket_buffers_have_the_configured_sizes(size: int) -> None:
    with socket.socket() as fresh:
        default = fresh.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    async with served(echo, SocketOptions(5, size, size)) as network:
        stream = await network.connect()
        await stream.send_all(b"x\n")
        await read_exactly(stream, 2)
        pumped = network.lines[0].pump.socket  # type: ignore[attr-defined]
        sizes = [pumped.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
    if size < 0:
        assert sizes[0] >= default
    else:
        assert all(size <= given <= 2 * size for given in sizes)  # Linux doubles the size for its own needs.


async def test_event_loop_steps_are_counted_while_the_network_runs() -> None:
    async with served(echo) as network:
        before = network.net.statistics()
        stream = await network.connect()
        await stream.send_all(b"x\n")
        await read_exactly(stream, 2)
        statistics = network.net.statistics()
    assert statistics.steps > before.steps
    assert 0 < statistics.step_ns_longest <= statistics.step_ns
    assert statistics.idle_ns > before.idle_ns
    assert network.net.statistics().steps >= statistics.steps


async def test_outgoing_and_accepted_connections_share_one_poller() -> None:
    answers: list[bytes] = []
    answered = trio.Event()

    def take(line: Line, data: bytes) -> None:
        answers.append(data)
        answered.set()

    async with served(echo) as network:
        line = await network.net.connect("127.0.0.1", network.bound.port, lambda peer, pump: Line(peer, pump, take))
        line.out.append(b"ping\n")
        line.pump.flush()
        await answered.wait()
        assert answers == [b"ping"]
        (accepted,) = network.lines
        assert (line.peer.host, line.peer.port) == ("127.0.0.1", network.bound.port)
        assert (accepted.peer.host, accepted.peer.port) == (line.peer.local_host, line.peer.local_port)
        accepted.pump.close()
        await line.gone.wait()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux doubles the size that is asked for")
async def test_an_outgoing_connection_has_the_receive_buffer_that_was_asked_for() -> None:
    def size(line: Line) -> int:
        pump = line.pump
        assert isinstance(pump, SocketPump)
        return int(pump.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))

    async with served(echo) as network:

        async def connect(receive_buffer_bytes: int) -> Line:
            port = network.bound.port
            return await network.net.connect(
                "127.0.0.1", port, lambda peer, pump: Line(peer, pump, echo), receive_buffer_bytes
            )

        assert size(await connect(20_000)) == 2 * 20_000
        assert size(await connect(50_000)) == 2 * 50_000
        assert size(await connect(-1)) not in (2 * 20_000, 2 * 50_000)


async def test_an_outgoing_connection_that_is_closed_or_fails_closes_its_socket() -> None:
    def fail(peer: Peer, pump: Pump) -> Line:
        raise RuntimeError("no memory")

    async with served(echo) as network:
        line = await network.net.connect("127.0.0.1", network.bound.port, lambda peer, pump: Line(peer, pump, echo))
        await network.connected.wait()
        line.pump.close()
        assert line.gone.is_set()
        await network.lines[0].gone.wait()
        network.connected = trio.Event()
        with pytest.raises(RuntimeError, match="no memory"):
            await network.net.connect("127.0.0.1", network.bound.port, fail)
        await network.connected.wait()
        await network.lines[1].gone.wait()


async def test_connecting_to_an_address_without_a_listener_raises_oserror() -> None:
    async with served(echo) as network:
        network.bound.close()
        with pytest.raises(OSError, match=str(network.bound.port)):
            await network.net.connect("127.0.0.1", network.bound.port, lambda peer, pump: Line(peer, pump, echo))
