"""Tests of a client connection against a fake broker on the other end of a memory stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from pykbroker.client.connection import BrokerConnection, Disconnected, UnsupportedVersion
from pykbroker.core.limits import REQUEST_BYTES_MAX
from wire.api import ApiKey
from wire.declare import Response
from wire.frame import decode_request, encode_response
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.versions import Versions


class Broker:
    """A fake broker that reads whole requests and sends the responses of the test."""

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


@pytest.fixture
async def ends() -> AsyncIterator[tuple[BrokerConnection, Broker]]:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = BrokerConnection(ours, "test")
    connection.versions = {ApiKey.FIND_COORDINATOR: Versions(0, 3)}
    yield connection, Broker(theirs)
    await connection.aclose()


async def ask(connection: BrokerConnection, group: str) -> str:
    answer = await connection.call(FindCoordinatorRequest(key_=group), FindCoordinatorResponse)
    return answer.host


async def test_a_request_has_the_newest_common_version(ends: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = ends
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.negotiate)
        correlation_id, version, _ = await broker.next()
        assert version == 0
        offered = [
            ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=1, max_version=2),
            ApiVersion(api_key=ApiKey.METADATA, min_version=99, max_version=100),
        ]
        await broker.answer(ApiVersionsResponse(api_keys=offered), 0, correlation_id)
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


async def test_the_response_of_a_cancelled_caller_is_skipped(
    ends: tuple[BrokerConnection, Broker], autojump_clock: trio.testing.MockClock
) -> None:
    connection, broker = ends
    with trio.move_on_after(1) as impatient:
        await ask(connection, "first")
    assert impatient.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, connection, "second")
        for name in ("first", "second"):
            correlation_id, version, request = await broker.next()
            assert isinstance(request, FindCoordinatorRequest)
            assert request.key_ == name
            await broker.answer(FindCoordinatorResponse(host=name), version, correlation_id)


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


@pytest.mark.parametrize("size", [3, -1, REQUEST_BYTES_MAX + 1])
async def test_an_invalid_response_length_ends_the_connection(ends: tuple[BrokerConnection, Broker], size: int) -> None:
    connection, broker = ends
    await broker.stream.send_all(size.to_bytes(4, "big", signed=True))
    with pytest.raises(Disconnected, match=f"claims to have {size} bytes"):
        await ask(connection, "group")
    with pytest.raises(Disconnected):
        await ask(connection, "group")


async def test_a_response_that_does_not_decode_ends_the_connection(ends: tuple[BrokerConnection, Broker]) -> None:
    connection, broker = ends
    await broker.stream.send_all((6).to_bytes(4, "big") + (0).to_bytes(4, "big") + b"\x00\xff")
    with pytest.raises(Disconnected, match="does not parse"):
        await ask(connection, "group")
    with pytest.raises(Disconnected):
        await ask(connection, "group")
