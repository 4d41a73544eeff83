"""Tests of the time and the memory of clients that have not logged in."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.login.logins import CROWDED_LOGIN_S_MAX, ENDS_MAX, LOGIN_S_MAX, LOGIN_SHARE
from tests.unit.server.login.client import GOOD, HANDLERS, SECOND_NS, WRONG, Client, Unrun, logins_of
from tests.unit.server.rig import Api, shared
from wire.api import ApiKey
from wire.frame import encode_request
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic


def test_clients_that_do_not_log_in_in_time_lose_their_connections(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(3)]
    clients[1].handshake()
    clients[1].token(GOOD)
    limit = LOGIN_S_MAX * SECOND_NS
    for now, closed in ((limit - 1, [0, 0, 0]), (limit, [1, 0, 1]), (limit + 1, [1, 0, 1])):
        while logins.end_overdue(now):
            pass
        assert [client.closes for client in clients] == closed
    assert clients[0].connection.ending is ConnectionEnding.SLOW_LOGIN
    assert (len(logins), logins._tables) == (0, {})


def test_of_the_clients_that_make_room_the_oldest_do_and_not_all_at_once(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(ENDS_MAX + 2)]
    clients[0].handshake()
    clients[0].token(GOOD)
    limit = CROWDED_LOGIN_S_MAX * SECOND_NS
    for now, closed in ((limit - 1, 0), (limit, ENDS_MAX), (limit, ENDS_MAX + 1)):
        logins.end_slow(now)
        assert [client.closes for client in clients] == [0] + [1] * closed + [0] * (ENDS_MAX + 1 - closed)
    assert clients[1].connection.ending is ConnectionEnding.CROWDED_OUT


def test_the_memory_of_clients_before_their_log_in_is_limited_and_the_oldest_make_room(unrun: Unrun) -> None:
    part = struct.pack(">i", 30_000) + bytes(20_000 - 4)
    of = shared(unrun, *HANDLERS, bytes_max=LOGIN_SHARE * 40_000)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(5)]
    for client in clients[:2]:
        client.feed(part)
    assert [client.closes for client in clients] == [0] * 5  # at the limit
    clients[2].feed(part[:5])
    assert [client.closes for client in clients] == [1, 0, 0, 0, 0]
    clients[3].handshake()
    clients[3].token(GOOD)
    assert clients[3].principal == "User:alice"
    for client in clients[3:]:
        client.feed(part)
    assert [client.closes for client in clients] == [1, 1, 0, 0, 0]
    assert clients[1].connection.ending is ConnectionEnding.CROWDED_OUT
    assert of.budget.bytes == 20_000  # the client that has logged in has the budget of the others
    for client in clients:
        client.close()
    assert (of.budget.bytes, logins._before.budget.bytes, len(logins)) == (0, 0, 0)


def test_many_failed_log_ins_make_room_one_after_the_other(unrun: Unrun) -> None:
    count, size = 300, 20_000
    of = shared(unrun, *HANDLERS, bytes_max=LOGIN_SHARE * count * size)
    logins = logins_of(of)
    clients = [Client(of, logins) for _ in range(count + 2)]
    for client in clients:
        client.handshake()
        client.token(WRONG + b"!" * size, 0)
    closed = [client for client in clients if client.closes]
    assert closed == clients[: len(closed)]
    assert {client.connection.ending for client in closed} == {ConnectionEnding.CROWDED_OUT}
    assert len(logins) == len(logins._tables) == len(clients) - len(closed)
    before = logins._before.budget
    assert (
        before.bytes == sum(before.holders.values()) == sum(client.connection.replies.kept_bytes for client in clients)
    )


def test_a_client_makes_room_for_its_own_request(unrun: Unrun) -> None:
    of = shared(unrun, *HANDLERS, bytes_max=LOGIN_SHARE * 660_000)
    logins = logins_of(of)
    oldest, other = clients = Client(of, logins), Client(of, logins)
    for client in clients:
        client.connection._frames.bytes_max = 520_000
    part = struct.pack(">i", 520_000) + bytes(519_990)
    oldest.feed(part[:20_000])
    other.feed(part[:33_000])
    oldest.feed(part[20_000:40_000])  # gets a small buffer, since half of the budget is charged
    assert [client.closes for client in clients] == [0, 0]
    oldest.feed(part[40_000:])
    assert [client.closes for client in clients] == [1, 0]
    assert oldest.connection.ending is ConnectionEnding.CROWDED_OUT


@pytest.mark.parametrize("topics", [6000, 60_000])
def test_a_request_in_the_middle_of_a_log_in_takes_no_more_memory_than_its_bytes(unrun: Unrun, topics: int) -> None:
    of = shared(unrun, *HANDLERS, Api(ApiKey.OFFSET_FETCH, "0-7", lambda context, request: None))
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t")] * topics)
    frame = encode_request(request, 7, 1, "me")
    client = Client(of)
    client.connection._frames.bytes_max = len(frame)
    client.handshake()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        client.feed(frame)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert client.is_held
    assert after - before < 8 * len(frame)
