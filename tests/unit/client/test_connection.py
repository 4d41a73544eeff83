"""Tests of a client connection over a real socket, against a fake broker."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import trio
import trio.testing

from pykbroker.client.cluster import ClusterBroker
from pykbroker.client.connection import BrokerConnection, connect
from pykbroker.client.errors import Disconnected, InvalidResponse, UnsupportedVersion
from pykbroker.client.node import NodeSettings
from pykbroker.client.nodes import Nodes
from pykbroker.client.outgoing import OutgoingConnection
from pykbroker.client.security import PLAINTEXT
from pykbroker.core.limits import REQUEST_BYTES_MAX
from pykbroker.world.net import Peer, Pump
from pykbroker.world.system_net import SystemNet
from wire.api import ApiKey
from wire.declare import Response
from wire.frame import decode_request, encode_response
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.versions import Versions

RESPONSE_BYTES_MAX = 50_000_000
LIMIT_S = 5


class Broker:
    """A fake broker that reads whole requests and sends the responses that a test passes."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.buffer = bytearray()

    async def next(self) -> tuple[int, int, object]:
        """Return (correlation id, version, request)."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4], "big"):
            self.buffer += await self.stream.receive_some()
        end = 4 + int.from_bytes(self.buffer[:4], "big")
        header, request = decode_request(bytes(self.buffer[4:end]))
        del self.buffer[:end]
        return header.correlation_id, header.version, request

    async def answer(self, response: Response, version: int, correlation_id: int) -> None:
        await self.stream.send_all(encode_response(response, version, correlation_id))


def outgoing(peer: Peer, pump: Pump) -> OutgoingConnection:
    return OutgoingConnection(peer, pump, "test", RESPONSE_BYTES_MAX)


class Network:
    """A running `SystemNet` and a listener on localhost whose accepted connections are fake brokers."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self.net = SystemNet()
        self.listener = listener
        self.port = listener.socket.getsockname()[1]

    async def accept(self) -> Broker:
        return Broker(await self.listener.accept())


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    network = Network(listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.net.run)
        yield network
        nursery.cancel_scope.cancel()
    await listener.aclose()


@pytest.fixture
async def ends(network: Network) -> AsyncIterator[tuple[BrokerConnection, Broker]]:
    connection = BrokerConnection(await network.net.connect("127.0.0.1", network.port, outgoing))
    connection.versions = {ApiKey.FIND_COORDINATOR: Versions(0, 3), ApiKey.PRODUCE: Versions(9, 9)}
    broker = await network.accept()
    yield connection, broker
    connection.close()
    await broker.stream.aclose()


async def ask(connection: BrokerConnection, group: str) -> str:
    return (await connection.ask(FindCoordinatorRequest(key_=group))).host


async def test_a_request_is_sent_in_the_newest_version_that_client_and_broker_support(
    ends: tuple[BrokerConnection, Broker],
) -> None:
    connection, broker = ends
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.negotiate)
        correlation_id, version, _ = await broker.next()
        assert version == 4
        offered = [
            ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=1, max_version=2),
            ApiVersion(api_key=ApiKey.METADATA, min_version=99, max_version=100),
        ]
        await broker.answer(ApiVersionsResponse(api_keys=offered), 4, correlation_id)
    assert connection.newest_version(ApiKey.FIND_COORDINATOR) == 2
    for key in (ApiKey.METADATA, ApiKey.PRODUCE):
        with pytest.raises(UnsupportedVersion, match=key.name):
            connection.newest_version(key)


async def test_concurrent_callers_get_their_own_responses(ends: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = ends
    answers: dict[int, str] = {}

    async def caller(number: int) -> None:
        answers[number] = await ask(connection, f"group {number}")

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(caller, number)
        asked = [await broker.next() for _ in range(10)]
        for correlation_id, version, request in asked:
            assert isinstance(request, FindCoordinatorRequest)
            await broker.answer(FindCoordinatorResponse(host=request.key_), version, correlation_id)
    assert answers == {number: f"group {number}" for number in range(10)}


async def test_the_response_of_a_cancelled_caller_is_dropped_and_the_connection_stays_usable(
    ends: tuple[BrokerConnection, Broker],
) -> None:
    connection, broker = ends
    async with trio.open_nursery() as impatient:
        impatient.start_soon(ask, connection, "first")
        first = await broker.next()
        impatient.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, connection, "second")
        for correlation_id, version, request in (first, await broker.next()):
            assert isinstance(request, FindCoordinatorRequest)
            await broker.answer(FindCoordinatorResponse(host=request.key_), version, correlation_id)
    assert connection.is_open


async def test_all_callers_get_disconnected_when_the_broker_closes_the_connection(
    ends: tuple[BrokerConnection, Broker],
) -> None:
    connection, broker = ends
    ended = []

    async def caller() -> None:
        with pytest.raises(Disconnected):
            await ask(connection, "group")
        ended.append(True)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(caller)
        await broker.next()
        await broker.stream.aclose()
    assert ended == [True] * 3
    assert not connection.is_open


@pytest.mark.parametrize("size", [3, -1, RESPONSE_BYTES_MAX + 1])
async def test_an_invalid_response_size_ends_the_connection(ends: tuple[BrokerConnection, Broker], size: int) -> None:
    connection, broker = ends
    pending = connection.ask_nowait(FindCoordinatorRequest(key_="group"))
    await broker.stream.send_all(size.to_bytes(4, "big", signed=True))
    with pytest.raises(InvalidResponse, match=f"a response of {size} bytes"):
        await connection.response(pending)
    with pytest.raises(InvalidResponse):
        await ask(connection, "group")


async def test_a_response_that_does_not_decode_ends_the_connection(ends: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = ends
    pending, other = (connection.ask_nowait(FindCoordinatorRequest(key_="group")) for _ in range(2))
    await broker.stream.send_all((6).to_bytes(4, "big") + (0).to_bytes(4, "big") + b"\x00\xff")
    for each in (pending, other):
        with pytest.raises(InvalidResponse, match="does not decode"):
            await connection.response(each)
    assert await broker.stream.receive_some() != b"", "the broker receives the two requests"
    assert await broker.stream.receive_some() == b""


async def test_a_response_of_many_megabytes_arrives_whole(ends: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = ends
    hosts = [f"{number:032000}" for number in range(1000)]
    async with trio.open_nursery() as nursery:
        request = connection.ask_nowait(FindCoordinatorRequest(key_="group"), 0)
        correlation_id, _, _ = await broker.next()
        host = encode_response(FindCoordinatorResponse(host=hosts[7]), 0, correlation_id)[4:]
        padded = host + b"".join(each.encode() for each in hosts)  # Bytes after the message are ignored.
        nursery.start_soon(broker.stream.send_all, len(padded).to_bytes(4, "big") + padded)
        assert (await connection.response(request)).host == hosts[7]


async def test_a_request_without_response_waits_until_its_bytes_are_in_the_socket_buffer(
    ends: tuple[BrokerConnection, Broker],
) -> None:
    connection, broker = ends
    partition = PartitionProduceData(0, bytes(30_000_000))
    produce = ProduceRequest(acks=0, timeout_ms=1, topic_data=[TopicProduceData("t", partition_data=[partition])])
    sent = trio.Event()

    async def send() -> None:
        await connection.send(produce)
        sent.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not sent.is_set()
        _, _, request = await broker.next()
        assert isinstance(request, ProduceRequest)
        await sent.wait()


class Stall(NamedTuple):
    """A broker, and a clock that jumps past the time limit of a request once its response is in the socket."""

    broker: Broker
    clock: trio.testing.MockClock

    async def answer(self, response: Response) -> None:
        correlation_id, version, _ = await self.broker.next()
        frame = encode_response(response, version, correlation_id)
        assert os.write(self.broker.stream.socket.fileno(), frame) == len(frame)  # type: ignore[attr-defined]
        self.clock.jump(2 * LIMIT_S)


@pytest.mark.parametrize("attempt", range(8))  # trio runs ready tasks in a random order
async def test_a_response_that_arrives_while_the_process_is_stopped_is_in_time(
    mock_clock: trio.testing.MockClock, nursery: trio.Nursery, network: Network, attempt: int
) -> None:
    nodes = Nodes(network.net, lambda low, high: low, NodeSettings(request_timeout_ms=1000 * LIMIT_S))
    await nursery.start(nodes.run)
    nodes.set_brokers({1: ClusterBroker(1, "127.0.0.1", network.port)})
    nursery.start_soon(nodes.connection, 1)
    stall = Stall(await network.accept(), mock_clock)
    offered = [ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=0, max_version=2)]
    await stall.answer(ApiVersionsResponse(api_keys=offered))
    connection = await nodes.connection(1)

    waiting = nodes.ask_nowait(1, FindCoordinatorRequest(key_="of Nodes"))
    await stall.answer(FindCoordinatorResponse(host="a"))
    while not waiting.is_done:
        await trio.lowlevel.checkpoint()
    assert waiting.result().host == "a"

    async def ask() -> None:
        answer = await connection.ask(FindCoordinatorRequest(key_="of a connection"), s_max=LIMIT_S)
        assert answer.host == "b"

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await stall.answer(FindCoordinatorResponse(host="b"))
    await stall.broker.stream.aclose()


async def test_connect_negotiates_api_versions_once(network: Network) -> None:
    connections: list[BrokerConnection] = []

    async def client() -> None:
        connections.append(await connect(network.net, "127.0.0.1", network.port, "test"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        broker = await network.accept()
        correlation_id, _, _ = await broker.next()
        offered = [ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=0, max_version=2)]
        await broker.answer(ApiVersionsResponse(api_keys=offered), 4, correlation_id)
    (connection,) = connections
    connection.ask_nowait(FindCoordinatorRequest(key_="group"))
    _, version, request = await broker.next()
    assert (type(request), version) == (FindCoordinatorRequest, 2)
    connection.close()
    assert await broker.stream.receive_some() == b""
    await broker.stream.aclose()


async def test_a_connection_is_closed_if_api_versions_fails(network: Network) -> None:
    async def client() -> None:
        with pytest.raises(Disconnected, match="ApiVersions was answered with error 42"):
            await connect(network.net, "127.0.0.1", network.port, "test")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        broker = await network.accept()
        correlation_id, _, _ = await broker.next()
        await broker.answer(ApiVersionsResponse(error_code=42), 4, correlation_id)
        assert await broker.stream.receive_some() == b""
    await broker.stream.aclose()


async def test_connecting_to_an_address_without_a_listener_raises_oserror(network: Network) -> None:
    await network.listener.aclose()
    with pytest.raises(OSError, match=str(network.port)):
        await connect(network.net, "127.0.0.1", network.port, "test")


def test_a_response_may_be_as_large_as_the_largest_request() -> None:
    assert connect.__defaults__ == (REQUEST_BYTES_MAX, PLAINTEXT)
