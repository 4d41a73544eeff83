"""Tests of the simulated network: it keeps the promises of TCP and no others."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import pytest
import trio

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.net import SimNet
from pykbroker.sim.network import Network
from pykbroker.sim.process import Process
from pykbroker.sim.retransmission import GIVE_UP_S
from pykbroker.sim.simulation import Simulation
from pykbroker.sim.volume import Volume
from pykbroker.world.disk import FileSlice
from pykbroker.world.net import Peer, Pump
from pykbroker.world.system_silence import LOOK_S, SILENT_S_MAX
from tests.unit.sim.stream import SimStream, connect

PORT = 9092


class Echo:
    """A connection that sends back what it receives; it matches the Protocol `world.net.Connection`."""

    def __init__(self, pump: Pump) -> None:
        self.out: list[Any] = []
        self.pump, self.ended, self.room, self.is_closed = pump, False, None, False
        self.wants_turn = False

    @property
    def wants_input(self) -> bool:
        return len(self.out) < 3

    def received(self, data: bytes) -> None:
        self.ended = not data
        self.out += [data] if data else []

    def unsent(self, size: int, kept_bytes: int) -> None:
        pass

    def closed(self) -> None:
        self.is_closed = True


class EchoNetwork:
    """A simulated network with a server on the host "server" that echoes what it receives."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.network = simulation, Network(simulation)
        self.server, self.client = Process("server"), Process("client")
        self.connections: list[Echo] = []
        self.net = SimNet(self.network, self.server, "server", simulation.dice("server"))
        self.listener = self.net.bind("server", PORT)
        self.listener.listen(cast("Any", self.accept))
        simulation.start(self.server, self.net.run)

    def accept(self, _peer: Peer, pump: Pump) -> Echo:
        self.connections.append(Echo(pump))
        return self.connections[-1]

    async def connect(self) -> SimStream:
        return await connect(self.network, self.client, "client", "server", PORT)


async def pause(seconds: float) -> None:
    """Let virtual time pass."""
    await trio.sleep_until(trio.current_time() + seconds)


async def read(stream: SimStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some()
        assert more, "the connection must not end"
        data += more
    return data


async def an_unstable_link(simulation: Simulation) -> dict[str, int]:
    stage, dice = EchoNetwork(simulation), simulation.dice("scene")
    faults = stage.network.faults
    faults.lost, faults.late, faults.short = 0.05, 0.1, 0.5
    stream = await stage.connect()
    sent, got, total = hashlib.sha256(), hashlib.sha256(), 0

    async def flap() -> None:
        while True:
            await trio.sleep(dice.uniform(0.01, 0.1))
            stage.network.cut(*dice.choice((("client", "server"), ("server", "client"))))
            await trio.sleep(dice.uniform(0.01, 0.1))
            stage.network.heal()

    async def receive() -> None:
        left = total
        while left:
            data = await stream.receive_some(5000)
            left -= len(data)
            got.update(data)

    chunks = [dice.randbytes(dice.randrange(1, 20_000)) for _ in range(40)]
    total = sum(map(len, chunks))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flap)
        async with trio.open_nursery() as both:
            both.start_soon(receive)
            for chunk in chunks:
                sent.update(chunk)
                await stream.send_all(chunk)
        nursery.cancel_scope.cancel()
    assert got.digest() == sent.digest()
    assert faults.happened["held"] >= 2
    return faults.happened


def test_bytes_arrive_in_order_over_an_unstable_link(apart):
    for seed in range(3):
        assert apart(an_unstable_link, seed=seed)[0]["lost"] > 5


def test_the_same_seed_gives_the_same_run(apart):
    assert apart(an_unstable_link, hash_seed="7", junk=1000)[1] == apart(an_unstable_link, hash_seed="8")[1]


async def a_peer_that_does_not_read(simulation: Simulation) -> int:
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    sent = 0
    with trio.move_on_after(60):
        while True:
            await stream.send_all(bytes(10_000))
            sent += 10_000
    return sent


def test_a_sender_blocks_while_its_peer_does_not_read(apart):
    assert 256_000 < apart(a_peer_that_does_not_read)[0] < 1_500_000


async def a_file_slice_is_sent(simulation: Simulation) -> bool:
    stage = EchoNetwork(simulation)
    file = SimDisk(Volume()).open("f", create=True)
    content = simulation.dice("content").randbytes(700_000)
    file.append(content)
    stream = await stage.connect()
    await stream.send_all(b"?")
    await read(stream, 1)
    echo = stage.connections[0]
    echo.out += [b"head", FileSlice(file, 10, 600_000), b"tail"]
    echo.pump.flush()
    return await read(stream, 600_008) == b"head" + content[10:600_010] + b"tail"


def test_file_slices_are_sent(apart):
    assert apart(a_file_slice_is_sent)[0] is True


async def connecting_without_a_listener(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stage.listener.close()
    with pytest.raises(ConnectionRefusedError):
        await stage.connect()


async def connecting_to_a_bound_but_not_listening_port(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    bound = stage.net.bind("server", PORT + 1)
    with pytest.raises(ConnectionRefusedError):
        await connect(stage.network, stage.client, "client", "server", PORT + 1)
    with pytest.raises(OSError, match="in use"):
        stage.net.bind("server", PORT + 1)
    bound.listen(cast("Any", stage.accept))
    await connect(stage.network, stage.client, "client", "server", PORT + 1)


async def the_server_is_killed(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    await simulation.at_rest()
    stage.server.kill()
    stage.network.kill(stage.server)
    try:
        assert await stream.receive_some() == b""
    except trio.BrokenResourceError:
        simulation.trace("reset")
    with pytest.raises(ConnectionRefusedError):
        await stage.connect()


async def the_server_loses_power(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    await simulation.at_rest()
    stage.server.kill()
    stage.network.host_down("server")
    await stream.send_all(b"hello?")
    with trio.move_on_after(10) as patience:
        await stream.receive_some()
    assert patience.cancelled_caught, "a half-open connection gets no answer"
    stage.network.host_up("server")
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()


async def a_response_over_a_cut_link(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    stage.network.cut("server", "client")
    await stream.send_all(b"hello?")
    with trio.move_on_after(1):
        await stream.receive_some()
    assert stage.network.faults.happened["held"] == 2, "the acknowledgement is lost, too"
    stage.network.heal()
    assert await read(stream, 6) == b"hello?"
    assert 1 < simulation.now < 2
    stage.network.cut("client", "server")
    await stream.send_all(b"is anybody there?")
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()
    assert GIVE_UP_S <= simulation.now < GIVE_UP_S + 5


async def retransmissions_over_a_cut_link(simulation: Simulation) -> None:
    """Cut a link for 14 s: its segments are sent again after 0.2, 0.6, 1.4, 3.0, 6.2, 12.6 and 25.4 s."""
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    stage.network.cut("client", "server")
    begun = simulation.now
    await stream.send_all(b"hello?")
    await pause(7)
    await stream.send_all(b"anybody?")
    await pause(7)
    stage.network.heal()
    assert await read(stream, 14) == b"hello?anybody?"
    assert simulation.now - begun == pytest.approx(25.4, abs=0.1)


async def a_connection_is_opened_over_a_cut_link(simulation: Simulation) -> None:
    """Cut a link for 6 s: its SYN is sent again after 1, 3 and 7 s, and `Net.connect` begins anew every 2 s."""
    stage = EchoNetwork(simulation)
    net = SimNet(stage.network, stage.client, "client", simulation.dice("client"))
    opened: list[float] = []

    async def open_by_kernel() -> None:
        await stage.connect()
        opened.append(simulation.now - begun)

    stage.network.cut("client", "server")
    begun = simulation.now
    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_by_kernel)
        nursery.start_soon(net.connect, "server", PORT, Caller)
        await pause(5.9)
        stage.network.heal()
        await pause(0.5)
        assert len(stage.network.ends("client")) == 2
        assert opened == []
    assert opened == [pytest.approx(7, abs=0.1)]


async def a_silent_peer_ends_the_connections_that_watch_for_it(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    net = SimNet(stage.network, stage.client, "client", simulation.dice("client"))
    simulation.start(stage.client, net.run)
    idle, busy = [await net.connect("server", PORT, Caller) for _ in range(2)]
    await pause(10)
    for seconds, gone in ((2.9, [False, False]), (SILENT_S_MAX + 0.1, [True, False])):  # sent again after 3.0 s
        stage.network.heal()
        await pause(1)
        stage.network.cut("server", "client")
        busy.out.append(b"hello?")
        busy.pump.flush()
        await pause(seconds)
        assert [idle.gone.is_set(), busy.gone.is_set()] == gone
    await pause(LOOK_S)
    assert busy.gone.is_set()


async def a_lost_reset_is_noticed_by_keep_alives(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    net = SimNet(stage.network, stage.client, "client", simulation.dice("client"))
    simulation.start(stage.client, net.run)
    caller = await net.connect("server", PORT, Caller)
    await pause(1)
    stage.network.cut("server", "client")
    stage.network.ends("server", PORT)[0].end(reset=True)
    await pause(1)
    stage.network.heal()
    assert not caller.gone.is_set()
    with trio.fail_after(SILENT_S_MAX):
        await caller.gone.wait()


async def one_direction_of_a_connection_stalls(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    streams = [await stage.connect() for _ in range(2)]
    await trio.sleep(0.1)  # the server accepts
    assert len(stage.network.ends("server")) == len(stage.network.ends("server", PORT, "client")) == 2
    assert stage.network.ends("server", PORT + 1) == stage.network.ends("server", PORT, "server") == []
    stage.network.ends("server", PORT, "client")[0].stall(simulation.now + 3)
    for stream in streams:
        await stream.send_all(b"hello?")
    assert await read(streams[1], 6) == b"hello?"
    assert simulation.now < 1
    await streams[0].send_all(b"hello?")
    assert await read(streams[0], 12) == b"hello?hello?"
    assert simulation.now >= 3


async def one_of_two_cut_links_is_repaired(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    stage.network.cut("server", "client")
    stage.network.cut("client", "server")
    await stream.send_all(b"hello?")
    await trio.sleep(1)
    stage.network.heal(("client", "server"))
    await trio.sleep(1)
    assert stage.network.faults.happened["held"] == 2, "the request has arrived, and its response is lost"
    stage.network.heal(("server", "client"))
    assert await read(stream, 6) == b"hello?"


class Caller:
    """An outgoing connection that keeps what it receives; it matches the Protocol `world.net.ConnectionMachine`."""

    wants_input, wants_turn = True, False

    def __init__(self, peer: Peer, pump: Pump) -> None:
        self.room: memoryview | None = None
        self.peer, self.pump, self.ended, self.gone = peer, pump, False, trio.Event()
        self.out: list[Any] = []
        self.data = b""
        self.came = trio.Event()

    def received(self, data: bytes) -> None:
        self.ended = not data
        self.data += data
        self.came.set()

    def filled(self, size: int) -> None:
        raise AssertionError("no room was given")

    def resume(self) -> None:
        raise AssertionError("no turn was wanted")

    def unsent(self, size: int, kept_bytes: int) -> None:
        pass

    def closed(self) -> None:
        self.gone.set()


async def an_outgoing_connection(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    net = SimNet(stage.network, stage.client, "client", simulation.dice("client"))
    with pytest.raises(ConnectionRefusedError):
        await net.connect("server", PORT + 1, Caller)
    simulation.start(stage.client, net.run)
    caller = await net.connect("server", PORT, Caller)
    caller.out.append(b"hello?")
    caller.pump.flush()
    while caller.data != b"hello?":
        await caller.came.wait()
        caller.came = trio.Event()
    assert caller.peer.host == "server"
    assert caller.peer.local_host == "client"
    stage.server.kill()
    stage.network.kill(stage.server)
    await caller.gone.wait()
    stage.network.cut("client", "server")
    with trio.move_on_after(10) as patience:
        await net.connect("server", PORT, Caller)
    assert patience.cancelled_caught, "a cut link delivers no answer"


async def the_client_closes(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stream = await stage.connect()
    await stream.send_all(b"x")
    await stream.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()
    await trio.sleep(1)
    assert stage.connections[0].is_closed


async def segments_are_answered_with_a_reset(simulation: Simulation) -> None:
    stage = EchoNetwork(simulation)
    stage.network.faults.reset = 1.0
    stream = await stage.connect()
    await stream.send_all(b"x")
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()
    await trio.sleep(1)
    assert stage.connections[0].is_closed


@pytest.mark.parametrize(
    "scene",
    [
        connecting_without_a_listener,
        connecting_to_a_bound_but_not_listening_port,
        the_server_is_killed,
        the_server_loses_power,
        a_response_over_a_cut_link,
        retransmissions_over_a_cut_link,
        a_connection_is_opened_over_a_cut_link,
        a_silent_peer_ends_the_connections_that_watch_for_it,
        a_lost_reset_is_noticed_by_keep_alives,
        one_direction_of_a_connection_stalls,
        one_of_two_cut_links_is_repaired,
        an_outgoing_connection,
        the_client_closes,
        segments_are_answered_with_a_reset,
    ],
)
def test_connections_fail_and_close_as_with_tcp(apart, scene):
    apart(scene)
