"""Connections whose peer's kernel acknowledges nothing end, and those whose peer only does not read stay open."""

from __future__ import annotations

import errno
import socket
import sys

import pytest
import trio
import trio.testing

from pykbroker.world import system_silence
from pykbroker.world.net import SocketOptions
from pykbroker.world.system_connect import SYN_S_MAX, connected_socket
from pykbroker.world.system_silence import (
    KEEP_ALIVE_IDLE_S,
    KEEP_ALIVE_INTERVAL_S,
    KEEP_ALIVES_MAX,
    LOOK_S,
    SILENT_S_MAX,
    TCP_INFO,
    Acknowledgements,
    SilenceWatch,
    acknowledgements,
)
from tests.unit.world.local_network import Line, echo, served

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a peer acknowledges")
Clock = trio.testing.MockClock
SYNS = 3
"""The number of the socket whose SYN is answered."""


class FakePump:
    """A pump whose peer acknowledges what was sent at `acked_at`, and owes an acknowledgement since `owed_at`."""

    socket: object = None

    def __init__(self) -> None:
        self.acked_at, self.owed_at, self.lost_at = -60.0, float("inf"), 0.0
        self.error: OSError | None = None

    def lose(self, error: OSError) -> None:
        self.lost_at, self.error = trio.current_time(), error


@pytest.fixture
def pump(monkeypatch: pytest.MonkeyPatch) -> FakePump:
    """Return a pump that the kernel of the test tells about."""
    one = FakePump()

    def told(_: object) -> Acknowledgements:
        now = trio.current_time()
        return Acknowledgements(one.owed_at <= now, int(1000 * (now - one.acked_at)))

    monkeypatch.setattr(system_silence, "acknowledgements", told)
    return one


async def watched(pump: FakePump, seconds: float) -> None:
    """Watch a pump for so many seconds."""
    watch = SilenceWatch(lambda one: pump.error is None)
    watch.add(pump)  # type: ignore[arg-type]
    with trio.move_on_after(seconds):
        await watch.run()


@pytest.mark.parametrize("owed_at", [0.0, 30.01, 30.99])
async def test_a_connection_ends_once_its_peer_acknowledges_nothing(
    autojump_clock: Clock, pump: FakePump, owed_at: float
) -> None:
    pump.owed_at = owed_at
    await watched(pump, 60)
    assert pump.error is not None
    assert pump.error.errno == errno.ETIMEDOUT
    assert SILENT_S_MAX <= pump.lost_at - owed_at <= SILENT_S_MAX + 2 * LOOK_S


async def test_an_idle_connection_is_not_ended_for_its_missing_acknowledgements(
    autojump_clock: Clock, pump: FakePump
) -> None:
    await watched(pump, 60)
    assert pump.error is None


async def test_a_slow_peer_that_acknowledges_from_time_to_time_keeps_its_connection(
    autojump_clock: Clock, pump: FakePump, nursery: trio.Nursery
) -> None:
    async def acknowledge() -> None:
        while True:
            pump.acked_at = trio.current_time()
            await trio.sleep(SILENT_S_MAX - 0.1)

    pump.owed_at = 0.0
    nursery.start_soon(acknowledge)
    await watched(pump, 60)
    assert pump.error is None


class PoorSocket:
    """A socket whose kernel answers TCP_INFO with these bytes, or not at all."""

    def __init__(self, info: bytes | None) -> None:
        self.info = info

    def getsockopt(self, *_: int) -> bytes:
        if self.info is None:
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        return self.info


FULL = bytes(TCP_INFO.size - 4) + (60_000).to_bytes(4, sys.byteorder)


@pytest.mark.parametrize("info", [None, bytes(4), FULL[:-1], FULL], ids=["WSL 1", "qemu", "short", "full"])
async def test_a_kernel_that_does_not_describe_acknowledgements_ends_no_connection(
    autojump_clock: Clock, info: bytes | None
) -> None:
    pump = FakePump()
    pump.socket = PoorSocket(info)
    assert acknowledgements(pump.socket) == (False, 60_000 if info == FULL else 0)  # type: ignore[arg-type]
    await watched(pump, 60)
    assert pump.error is None


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the watch end silent connections within a fraction of a second."""
    monkeypatch.setattr(system_silence, "SILENT_S_MAX", 0.1)
    monkeypatch.setattr(system_silence, "LOOK_S", 0.01)


def do_not_read(line: Line, data: bytes) -> None:
    """Take nothing after the first bytes."""
    line.wants_input = False


async def test_a_peer_that_does_not_read_keeps_its_connection(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window is closed, and the kernel acknowledges the probes. TCP_USER_TIMEOUT would end the connection."""
    looks: list[Acknowledgements] = []
    seen = trio.Event()

    def noted(sock: socket.socket) -> Acknowledgements:
        looks.append(acknowledgements(sock))
        if len(looks) > 100:  # 1 s, of which the sender's window is closed for more than SILENT_S_MAX
            seen.set()
        return looks[-1]

    async with served(do_not_read, SocketOptions(receive_buffer_bytes=4096)) as network:
        line = await network.net.connect("127.0.0.1", network.bound.port, lambda peer, pump: Line(peer, pump, echo))
        line.out.append(bytes(64 << 20))
        line.pump.flush()
        monkeypatch.setattr(system_silence, "acknowledgements", noted)
        await seen.wait()
        assert line.out, "the window of the peer is closed"
        assert not line.gone.is_set()
        network.lines[0].pump.close()
        await line.gone.wait()


def keep_alives(pump: object) -> tuple[int, ...]:
    """Return the options of a socket for keep-alives."""
    sock = pump.socket  # type: ignore[attr-defined]
    found = [sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    return (*found, *(sock.getsockopt(socket.IPPROTO_TCP, option) for option in options))


@pytest.mark.parametrize(("of_nodes", "later"), [(True, False), (False, False), (False, True)])
async def test_connections_of_nodes_and_outgoing_ones_send_keep_alives(of_nodes: bool, later: bool) -> None:
    wanted = (1, KEEP_ALIVE_IDLE_S, KEEP_ALIVE_INTERVAL_S, KEEP_ALIVES_MAX)
    assert KEEP_ALIVE_IDLE_S + KEEP_ALIVE_INTERVAL_S * KEEP_ALIVES_MAX == SILENT_S_MAX
    async with served(echo, SocketOptions(ends_silent=of_nodes)) as network:
        line = await network.net.connect("127.0.0.1", network.bound.port, lambda peer, pump: Line(peer, pump, echo))
        await network.connected.wait()
        assert keep_alives(line.pump) == wanted
        if later:
            network.lines[0].pump.end_when_silent()
        assert (keep_alives(network.lines[0].pump) == wanted) is (of_nodes or later)


async def test_an_address_that_does_not_answer_gets_another_syn_from_a_new_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full backlog loses each SYN, as a network does that is cut."""
    monkeypatch.setattr("pykbroker.world.system_connect.SYN_S_MAX", 0.05)
    made: list[object] = []
    new_socket = trio.socket.socket

    def counted(*arguments: int) -> trio.socket.SocketType:
        made.append(arguments)
        if len(made) == SYNS:
            full.accept()[0].close()
        return new_socket(*arguments)

    monkeypatch.setattr(trio.socket, "socket", counted)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):
            connected = await connected_socket(*full.getsockname())
            assert connected.getpeername() == full.getsockname()
            connected.close()
    assert len(made) >= SYNS


async def test_a_peer_whose_syn_ack_is_slow_is_reached(autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first socket connects once the second one has begun to."""
    with trio.socket.socket() as any_socket:
        of_sockets = type(any_socket)
    connect = of_sockets.connect
    begun: list[float] = []

    async def slow(sock: trio.socket.SocketType, address: tuple[str, int]) -> None:
        begun.append(trio.current_time())
        await trio.sleep(1.5 * SYN_S_MAX)
        await connect(sock, address)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(of_sockets, "connect", slow)
        with trio.fail_after(10):
            connected = await connected_socket(*listener.getsockname())
        assert connected.getpeername() == listener.getsockname()
        connected.close()
    assert [time - begun[0] for time in begun] == [0, SYN_S_MAX]
