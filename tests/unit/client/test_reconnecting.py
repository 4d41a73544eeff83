"""Tests of a connection that reconnects: backoff, requests that a disconnect fails, and concurrent callers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.backoff import Backoff
from pykbroker.client.errors import Disconnected, Silent
from pykbroker.client.outgoing import OutgoingConnection
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.world.net import Peer, Pump, Tls
from tests.unit.client.fake_broker import PEER, FakeBroker
from tests.unit.replica.brokers import pause
from wire.api import ApiKey
from wire.header import RequestHeader
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

VERSIONS = [ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=0, max_version=3)]


class NegotiatingBroker(FakeBroker):
    """A fake broker that answers ApiVersions without the test."""

    def requests(self):
        rest = []
        for header, request in super().requests():
            if isinstance(request, ApiVersionsRequest):
                self.answer(header, ApiVersionsResponse(api_keys=VERSIONS))
            else:
                rest.append((header, request))
        return rest


class Net:
    """A double of `world.net.Net` whose first attempts to connect raise the given `failures`."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.attempts: list[float] = []
        self.brokers: list[NegotiatingBroker] = []

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[[Peer, Pump], OutgoingConnection],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
    ) -> OutgoingConnection:
        assert (host, port) == ("broker", 9092)
        self.attempts.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if len(self.attempts) <= self.failures:
            raise ConnectionRefusedError
        broker = NegotiatingBroker()
        broker.connection = open_connection(PEER, broker)
        self.brokers.append(broker)
        return broker.connection


def reconnecting(net: Net) -> ReconnectingConnection:
    return ReconnectingConnection(net, "broker", 9092, "test", Backoff(lambda low, high: 1.0))  # type: ignore[arg-type]


async def serve(net: Net) -> None:
    """Answer the requests on all connections."""
    while True:
        await trio.sleep(0.001)
        for broker in net.brokers:
            for header, request in broker.requests():
                broker.answer(header, FindCoordinatorResponse(host=request.key_))


@pytest.fixture
async def answering(nursery):
    """Return a function that starts to answer the requests on all connections of a net."""

    def start(net: Net) -> Net:
        nursery.start_soon(serve, net)
        return net

    return start


async def ask(connection: ReconnectingConnection, group: str = "group") -> str:
    return (await connection.ask(FindCoordinatorRequest(key_=group))).host


async def test_concurrent_callers_share_the_connection_that_the_first_request_opens(autojump_clock, answering) -> None:
    net = answering(Net())
    connection = reconnecting(net)
    assert net.attempts == []
    async with trio.open_nursery() as callers:
        for number in range(5):
            callers.start_soon(ask, connection, str(number))
    assert await ask(connection, "a") == "a"
    assert len(net.attempts) == 1


async def test_the_reconnect_backoff_doubles_up_to_its_maximum(autojump_clock, answering) -> None:
    net = answering(Net(failures=7))
    connection = reconnecting(net)
    for _ in range(7):
        with pytest.raises(ConnectionRefusedError):
            await ask(connection)
    assert await ask(connection) == "group"
    waits = [round(later - earlier, 6) for earlier, later in zip(net.attempts, net.attempts[1:], strict=False)]
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


async def test_a_disconnect_fails_pending_requests_and_the_next_request_reconnects(autojump_clock, answering) -> None:
    net = Net()
    connection = reconnecting(net)
    failed = []

    async def caller() -> None:
        with pytest.raises(Disconnected):
            await ask(connection, "lost")
        failed.append(trio.current_time())

    async with trio.open_nursery() as callers:
        callers.start_soon(caller)
        callers.start_soon(caller)
        await trio.sleep(1)
        net.brokers[0].requests()
        await trio.sleep(1)
        (first, _), (second, _) = net.brokers[0].requests()
        assert first.key == second.key == ApiKey.FIND_COORDINATOR
        net.brokers[0].close()
        closed_at = trio.current_time()
    assert failed == [closed_at, closed_at]
    answering(net)
    assert await ask(connection, "next") == "next"
    assert net.attempts[1] - closed_at == pytest.approx(0.05)
    assert net.brokers[1].requests() == [], "failed requests are not sent again"


async def test_a_successful_connection_resets_the_backoff(autojump_clock, answering) -> None:
    net = answering(Net(failures=4))
    connection = reconnecting(net)
    for _ in range(4):
        with pytest.raises(ConnectionRefusedError):
            await ask(connection)
    await ask(connection)
    net.brokers[0].close()
    closed_at = trio.current_time()
    await ask(connection)
    assert net.attempts[-1] - closed_at == pytest.approx(0.05)


async def test_a_broker_that_closes_before_it_answers_api_versions_counts_as_a_failed_attempt(autojump_clock) -> None:
    net = Net()
    connection = reconnecting(net)

    async def refuse() -> None:
        await trio.sleep(1)
        net.brokers[0].close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(Disconnected):
            await ask(connection)
        failed_at = trio.current_time()
    with trio.move_on_after(1):
        await ask(connection)
    assert net.attempts[1] - failed_at == pytest.approx(0.05)


async def test_an_attempt_whose_caller_is_cancelled_counts_as_failed(autojump_clock, answering) -> None:
    net = Net()
    connection = reconnecting(net)
    with trio.move_on_after(2):
        await ask(connection)
    gave_up_at = trio.current_time()
    assert net.brokers[0].is_closed
    answering(net)
    assert await ask(connection) == "group"
    assert net.attempts[1] - gave_up_at == pytest.approx(0.05)


async def test_a_request_after_close_opens_a_new_connection(autojump_clock, answering) -> None:
    net = answering(Net())
    connection = reconnecting(net)
    connection.close()
    await ask(connection)
    connection.close()
    assert net.brokers[0].is_closed
    await ask(connection)
    assert len(net.brokers) == 2


def test_the_backoff_has_20_percent_jitter_and_never_exceeds_its_maximum() -> None:
    delays = []
    for seed in range(300):
        backoff = Backoff(Random(seed).uniform, 100, 350)
        delays.append([backoff.failed() for _ in range(3)])
    first, second, third = zip(*delays, strict=True)
    assert 0.08 <= min(first) < 0.085 < 0.115 < max(first) <= 0.12
    assert 0.16 <= min(second) < max(second) <= 0.24
    assert max(third) == 0.35
    assert Backoff(lambda low, high: 1.0, 100, 20).failed() == 0.02


LIMIT_S = 2.0
"""The time limit of the requests below."""
POLL_S = 0.001


async def serve_late(net: Net, after_s: float) -> None:
    """Answer ApiVersions at once, and each other request so many seconds after it arrived."""

    async def answer(broker: NegotiatingBroker, header: RequestHeader, request: FindCoordinatorRequest) -> None:
        await pause(after_s)
        if not broker.is_closed:
            broker.answer(header, FindCoordinatorResponse(host=request.key_))

    async with trio.open_nursery() as answering:
        while True:
            await pause(POLL_S)
            for broker in net.brokers:
                for header, request in broker.requests():
                    answering.start_soon(answer, broker, header, request)


async def outcome(connection: ReconnectingConnection, s_max: float) -> tuple[str, Any]:
    """Return how a request ends, and after how many seconds, to be compared."""
    begun, how = trio.current_time(), "answered"
    try:
        await connection.ask(FindCoordinatorRequest(key_="group"), s_max=s_max)
    except Silent:
        how = "silent"
    return how, pytest.approx(trio.current_time() - begun, abs=10 * POLL_S)


@pytest.mark.parametrize(("after_s", "how"), [(LIMIT_S - 0.1, "answered"), (LIMIT_S, "silent"), (9.0, "silent")])
async def test_a_request_that_times_out_ends_its_connection(autojump_clock, nursery, after_s: float, how: str) -> None:
    net = Net()
    nursery.start_soon(serve_late, net, after_s)
    assert await outcome(reconnecting(net), LIMIT_S) == (how, min(after_s, LIMIT_S))
    assert net.brokers[0].is_closed is (how == "silent")


async def test_the_other_requests_of_a_connection_end_with_the_one_that_times_out(autojump_clock, nursery) -> None:
    net, ends = Net(), []
    nursery.start_soon(serve_late, net, 9.0)
    connection = reconnecting(net)

    async def ask_within(s_max: float) -> None:
        ends.append(await outcome(connection, s_max))

    async with trio.open_nursery() as callers:
        for s_max in (10 * LIMIT_S, LIMIT_S, float("inf")):
            callers.start_soon(ask_within, s_max)
    assert ends == [("silent", LIMIT_S)] * 3


async def test_a_caller_that_is_cancelled_keeps_the_connection_but_its_request_times_out_all_the_same(
    autojump_clock, nursery
) -> None:
    net = Net()
    nursery.start_soon(serve_late, net, 9.0)
    connection = reconnecting(net)
    with trio.move_on_after(LIMIT_S / 4):
        await outcome(connection, LIMIT_S)
    assert not net.brokers[0].is_closed
    assert await outcome(connection, LIMIT_S) == ("silent", LIMIT_S * 3 / 4)
    assert net.brokers[0].is_closed


async def test_the_time_limit_of_a_request_includes_the_opening_of_its_connection(autojump_clock) -> None:
    class BlackHole(Net):
        async def connect(self, *_: object) -> OutgoingConnection:
            await trio.sleep_forever()
            raise AssertionError

    begun = trio.current_time()
    with pytest.raises(TimeoutError, match="broker:9092 accepted no connection within 2 s"):
        await reconnecting(BlackHole()).ask(FindCoordinatorRequest(key_="group"), s_max=LIMIT_S)
    assert trio.current_time() - begun == LIMIT_S
