"""Tests of closing idle and slow connections: at their limit, not earlier, and never for a delay of the broker."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio

from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.secret import Secret
from pykbroker.server import idle
from pykbroker.server.authentications import Authentications
from pykbroker.server.connection import Connection
from pykbroker.server.connections import Connections
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.handler import NO_RESPONSE, Later
from pykbroker.server.limits import Limits
from pykbroker.server.listener import Listener
from pykbroker.server.login.logins import LOGIN_S_MAX
from pykbroker.server.login.table import SaslListener
from pykbroker.server.table import ApiTable
from pykbroker.world.net import Peer
from pykbroker.world.turns import Turns
from tests.unit.server.login.client import compute
from tests.unit.server.rig import ECHO, Api, Rig, heartbeat, padded
from wire.api import ApiKey
from wire.frame import encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.messages.list_offsets import ListOffsetsRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

MIB = 1 << 20
HALF = padded(1, 2 * MIB)[:100_000]
LOOK = idle.LOOK_S + 0.1
API_VERSIONS = Api(ApiKey.API_VERSIONS, "0-4", lambda context, request: ApiVersionsResponse(error_code=42))
SASL = SaslListener({"PLAIN": Plain({"alice": Secret("secret")})}, {}, 1000, 0.1, lambda: "nonce", compute)


def ticks() -> int:
    return round(trio.current_time() * 1e9)


class IdleListener:
    """A listener with a rig around each of its connections."""

    def __init__(self, tasks: Any, *handlers: Any, **limits: Any) -> None:
        self.connections = Connections(ApiTable((ECHO, *handlers)), tasks, Turns(ticks), Limits(**limits))
        self.listener = Listener("PLAINTEXT", self.connections)
        self._ports: Iterator[int] = iter(range(1, 100_000))

    def connect(self, sasl: SaslListener | None = None) -> Rig:
        rig = Rig.__new__(Rig)
        rig.flushes = rig.closes = 0
        listener = self.listener if sasl is None else Listener("SASL", self.connections, sasl=sasl)
        connection = listener(Peer("10.0.0.7", next(self._ports), "10.0.0.1", 9092), rig)
        assert isinstance(connection, Connection)
        rig.connection = connection
        return rig

    def endings(self) -> dict[ConnectionEnding, int]:
        return dict(self.connections.statistics().connections_closed)


@asynccontextmanager
async def idle_listener(*handlers: Any, **limits: Any) -> AsyncIterator[IdleListener]:
    async with trio.open_nursery() as nursery:
        made = IdleListener(nursery, *handlers, **limits)
        nursery.start_soon(made.connections.run)
        yield made
        nursery.cancel_scope.cancel()


async def test_idle_connections_are_closed_at_their_limit_longest_idle_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with idle_listener(idle_ms_max=60_000) as home:
        first, second, third = rigs = [home.connect() for _ in range(3)]
        for rig in (third, second, first):
            await trio.sleep(10)
            rig.feed(heartbeat(1))
        await trio.sleep(49.8)  # The third connection was idle for 69.8 s, the second for 59.8 s.
        assert [rig.closes for rig in rigs] == [0, 0, 1]
        second.feed(heartbeat(2))
        await trio.sleep(10 + LOOK)
        assert [rig.closes for rig in rigs] == [1, 0, 1]
        await trio.sleep(50)
        assert [rig.closes for rig in rigs] == [1, 1, 1]
        assert home.endings() == {ConnectionEnding.IDLE: 3}


class Passes(trio.abc.Instrument):
    """The numbers of connections that were closed before each pass of the event loop."""

    def __init__(self, rigs: list[Rig]) -> None:
        self._rigs = rigs
        self.counts: list[int] = []

    def before_io_wait(self, timeout: float) -> None:
        self.counts.append(sum(rig.closes for rig in self._rigs))


@pytest.mark.parametrize(("sasl", "limit_s"), [(None, 1), (SASL, LOGIN_S_MAX)])
async def test_one_connection_is_closed_per_pass_of_the_event_loop_for_idleness_or_a_late_log_in(
    autojump_clock: trio.testing.MockClock, sasl: SaslListener | None, limit_s: float
) -> None:
    async with idle_listener(API_VERSIONS, idle_ms_max=1000 if sasl is None else -1) as home:
        rigs = [home.connect(sasl) for _ in range(10)]
        trio.lowlevel.add_instrument(passes := Passes(rigs))
        await trio.sleep(limit_s + LOOK)
        trio.lowlevel.remove_instrument(passes)
    assert max(after - before for before, after in pairwise(passes.counts)) == 1
    assert (passes.counts[0], passes.counts[-1]) == (0, 10)


async def test_idle_connections_stay_open_if_no_limit_is_set(autojump_clock: trio.testing.MockClock) -> None:
    async with idle_listener(idle_ms_max=-1) as home:
        rig = home.connect()
        await trio.sleep(5000)
        assert rig.closes == 0


async def test_a_waiting_fetch_does_not_prevent_an_idle_timeout_but_its_response_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def park(seconds: float) -> FetchResponse:
        await trio.sleep(seconds)
        return FetchResponse()

    fetch = Api(ApiKey.FETCH, "4-18", lambda context, request: park(request.max_wait_ms / 1000))
    async with idle_listener(fetch, idle_ms_max=60_000) as home:
        short, long = home.connect(), home.connect()
        short.feed(encode_request(FetchRequest(max_wait_ms=40_000), 12, 1, "me"))
        long.feed(encode_request(FetchRequest(max_wait_ms=90_000), 12, 1, "me"))
        await trio.sleep(60 + LOOK)
        assert [short.closes, long.closes] == [0, 1]
        await trio.sleep(40)
        assert short.closes == 1


async def test_a_connection_whose_request_stays_incomplete_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    async with idle_listener() as home:
        small, large, fine = home.connect(), home.connect(), home.connect()
        small.feed(heartbeat(1) + heartbeat(1)[:5])
        large.feed(HALF)
        fine.feed(heartbeat(1))
        await trio.sleep(idle.REQUEST_QUIET_S_MAX - 0.5)
        assert [small.closes, large.closes] == [0, 0]
        await trio.sleep(0.5 + LOOK)
        assert [small.closes, large.closes, fine.closes] == [1, 1, 0]
        assert home.endings() == {ConnectionEnding.SLOW_REQUEST: 2}


@pytest.mark.parametrize(("bytes_s", "closes"), [(1, 1), (1000, 1), (1100, 0), (5000, 0)])
async def test_a_request_must_arrive_at_a_minimum_rate(
    bytes_s: int, closes: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with idle_listener() as home:
        rig = home.connect()
        rig.feed(struct.pack(">i", 2 * MIB))
        await trio.sleep(0.5)
        for _ in range(idle.REQUEST_QUIET_S_MAX + 3):
            await trio.sleep(1)
            if not rig.closes:
                rig.feed(bytes(bytes_s))
        assert rig.closes == closes


async def test_a_fast_start_of_a_request_does_not_excuse_a_slow_rest(autojump_clock: trio.testing.MockClock) -> None:
    async with idle_listener() as home:
        rig = home.connect()
        rig.feed(HALF)
        await trio.sleep(0.5)
        for second in range(70):
            assert rig.closes == 0 if second < 60 else second < 63 or rig.closes == 1
            await trio.sleep(1)
            if not rig.closes:
                rig.feed(b"x")


async def test_consecutive_requests_do_not_count_as_one_slow_request(autojump_clock: trio.testing.MockClock) -> None:
    async with idle_listener() as home:
        rig = home.connect()
        frame = heartbeat(1)
        rig.feed(frame[:9])
        for _ in range(100):
            await trio.sleep(2)
            rig.feed(frame[9:] + frame[:9])
        assert rig.closes == 0


async def test_a_connection_is_not_timed_out_while_the_broker_does_not_read_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait() -> Any:
        await trio.sleep(100)
        return NO_RESPONSE

    held = Api(ApiKey.LIST_OFFSETS, "1-11", lambda context, request: Later(wait(), holds_connection=True))
    async with idle_listener(held) as home:
        rig = home.connect()
        rig.feed(encode_request(ListOffsetsRequest(), 11, 1, "me") + heartbeat(1)[:5])
        await trio.sleep(100.5)
        assert rig.closes == 0
        rig.feed(b"")
        await trio.sleep(idle.REQUEST_QUIET_S_MAX - 2)
        assert rig.closes == 0
        await trio.sleep(2 + 2 * LOOK)
        assert rig.closes == 1


async def test_incomplete_requests_time_out_sooner_while_the_budget_is_exhausted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with idle_listener(held_bytes_max=100_000) as home:
        quiet, slow, quick = home.connect(), home.connect(), home.connect()
        for rig in (quiet, slow, quick):
            rig.feed(struct.pack(">i", 2 * MIB) + bytes(2000))
        await trio.sleep(10.5)  # The checks for timeouts fall between these steps.
        assert quiet.closes == 0
        quick.feed(bytes(100_000))
        for second in range(idle.SPENT_QUIET_S_MAX + 3):
            assert second < 2 or quiet.closes == 1
            if not slow.closes:
                slow.feed(bytes(1000))
            quick.feed(bytes(idle.SPENT_BYTES_S_MIN + 2000))
            await trio.sleep(1)
        assert [rig.closes for rig in (quiet, slow, quick)] == [1, 1, 0]


async def test_a_client_that_reads_slowly_is_closed_early_only_while_the_budget_is_exhausted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with idle_listener(held_bytes_max=1000, idle_ms_max=600_000) as home:
        reader, sluggish = home.connect(), home.connect()
        sluggish.connection.unsent(999, 999)
        await trio.sleep(500)
        assert sluggish.closes == 0
        reader.connection.unsent(21, 1)
        await trio.sleep(0.5)
        for left in range(20):
            await trio.sleep(1)
            reader.connection.unsent(20 - left, 1)
        assert [reader.closes, sluggish.closes] == [0, 1]
        assert home.endings() == {ConnectionEnding.SLOW_READER: 1}
        reader.connection.unsent(5, 5)
        await trio.sleep(599)
        assert reader.closes == 0
        await trio.sleep(1 + LOOK)
        assert home.endings() == {ConnectionEnding.SLOW_READER: 1, ConnectionEnding.IDLE: 1}


async def test_only_as_many_slow_clients_are_closed_as_the_budget_needs(autojump_clock: trio.testing.MockClock) -> None:
    async with idle_listener(held_bytes_max=1000) as home:
        rigs = [home.connect() for _ in range(100)]
        for rig in rigs:
            rig.connection.unsent(11, 11)
            await trio.sleep(0.01)
        await trio.sleep(idle.SPENT_QUIET_S_MAX + 3)
        assert [rig.closes for rig in rigs] == [1] * 10 + [0] * 90


async def test_a_client_that_reads_slowly_is_not_timed_out_for_a_request_that_the_broker_does_not_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with idle_listener() as home:
        rig = home.connect()
        rig.feed(heartbeat(1)[:9])
        rig.connection.unsent(1000, 1000)
        await trio.sleep(3 * idle.REQUEST_QUIET_S_MAX)
        assert rig.closes == 0
        rig.connection.unsent(0, 0)
        await trio.sleep(idle.REQUEST_QUIET_S_MAX + 2 * LOOK)
        assert home.endings() == {ConnectionEnding.SLOW_REQUEST: 1}


async def test_closing_many_slow_connections_logs_few_lines(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with idle_listener() as home:
        rigs = [home.connect() for _ in range(1000)]
        for rig in rigs:
            rig.feed(heartbeat(1)[:5])
        await trio.sleep(idle.REQUEST_QUIET_S_MAX + LOOK)
        assert home.endings() == {ConnectionEnding.SLOW_REQUEST: 1000}
    assert len(caplog.messages) == 1


async def test_a_client_that_does_not_log_in_is_closed_however_busy_it_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with idle_listener(API_VERSIONS) as home:
        silent, busy, alice = (home.connect(SASL) for _ in range(3))
        alice.feed(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "me"))
        alice.feed(encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2, 2, "me"))
        for _ in range(LOGIN_S_MAX - 1):
            await trio.sleep(1)
            busy.feed(encode_request(ApiVersionsRequest(), 0, 3, "me"))
        assert [rig.closes for rig in (silent, busy, alice)] == [0, 0, 0]
        await trio.sleep(1 + LOOK)
        assert [rig.closes for rig in (silent, busy, alice)] == [1, 1, 0]
        alice.connection.out.clear()
        alice.feed(heartbeat(1))
        assert len(alice.replies()) == 1
        statistics = home.connections.statistics()
        assert statistics.connections_closed == {ConnectionEnding.SLOW_LOGIN: 2}
        assert statistics.authentications == {"SASL": Authentications(successes=1, successes_without_again=0)}
