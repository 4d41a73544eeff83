"""Tests of the limits on connections, with values below, at and above each limit."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykbroker.core.security.session import Session
from pykbroker.server.connections import Connections
from pykbroker.server.limits import UNLIMITED, ConnectionLimits, Limits
from pykbroker.server.listener import Listener
from pykbroker.server.login.logins import CROWDED_LOGIN_S_MAX
from pykbroker.server.quotas import SECOND_NS, ConnectionQuotas
from pykbroker.server.table import ApiTable
from pykbroker.world.net import Peer
from pykbroker.world.turns import Turns
from tests.unit.server.login.client import listener as sasl_listener
from tests.unit.server.rig import NoTasks

HOST, OTHER = "10.0.0.7", "2001:db8::1"


class Clock:
    def __init__(self) -> None:
        self.now = 5 * SECOND_NS

    def __call__(self) -> int:
        return self.now


def of(host: str, listener: str = "PLAINTEXT") -> Session:
    """Return a session of the given host."""
    return Session(host, 50000, "::1", 9092, listener, 0)


def limited(connections_max: int = UNLIMITED, connections_per_s_max: int = UNLIMITED, **others: Any) -> Limits:
    return Limits(connections=ConnectionLimits(connections_max, connections_per_s_max), **others)


def quotas(clock: Clock | None = None, **limits: Any) -> ConnectionQuotas:
    return ConnectionQuotas(limited(**limits), clock or Clock())


def test_without_limits_every_connection_is_accepted() -> None:
    free = quotas()
    for _ in range(5000):
        assert free.has_room("PLAINTEXT")
        assert free.admit(of(HOST))


def test_the_connections_of_one_address_are_limited() -> None:
    each = quotas(connections_per_ip_max=2)
    assert [each.admit(of(HOST)) for _ in range(4)] == [True, True, False, False]
    assert each.admit(of(OTHER))
    each.release(of(HOST))
    assert [each.admit(of(HOST)) for _ in range(2)] == [True, False]


def test_an_override_sets_the_limit_of_one_address() -> None:
    each = quotas(connections_per_ip_max=1, connections_per_ip_overrides={HOST: 3, OTHER: 0})
    assert [each.admit(of(HOST)) for _ in range(4)] == [True, True, True, False]
    assert [each.admit(of(host)) for host in (OTHER, "::1", "::1")] == [False, True, False]


def test_connections_above_the_total_limit_wait() -> None:
    few = quotas(connections_max=2)
    room = []
    for _ in range(2):
        room.append(few.has_room("PLAINTEXT"))
        few.admit(of(HOST))
    assert [*room, few.has_room("PLAINTEXT")] == [True, True, False]
    few.release(of(HOST))
    assert few.has_room("PLAINTEXT")


def test_new_limits_apply_to_later_connections() -> None:
    clock = Clock()
    changing = quotas(clock, connections_max=3, connections_per_ip_max=2, connections_per_s_max=100)
    assert [changing.admit(of(HOST)) for _ in range(3)] == [True, True, False]
    changing.limit(limited(connections_max=2, connections_per_ip_max=3))
    assert not changing.has_room("PLAINTEXT")
    changing.limit(limited(connections_per_ip_max=1))
    assert (changing.has_room("PLAINTEXT"), changing.admit(of(HOST)), changing.admit(of(OTHER))) == (True, False, True)
    changing.limit(limited(connections_per_s_max=1))
    assert changing.has_room("PLAINTEXT")
    changing.admit(of("10.0.0.8"))
    assert not changing.has_room("PLAINTEXT")
    clock.now += SECOND_NS
    assert changing.has_room("PLAINTEXT")


def test_a_refused_connection_does_not_count_towards_the_total() -> None:
    few = quotas(connections_max=2, connections_per_ip_max=1)
    assert [few.admit(of(HOST)), few.admit(of(HOST)), few.has_room("PLAINTEXT")] == [True, False, True]


def test_connections_are_accepted_no_faster_than_the_rate() -> None:
    clock = Clock()
    slow = quotas(clock, connections_per_s_max=4)
    come = 0
    for _ in range(100):  # ten seconds in steps of 0.1 s
        while slow.has_room("PLAINTEXT"):
            slow.admit(of(HOST))
            come += 1
        clock.now += SECOND_NS // 10
    assert 4 + 39 <= come <= 4 + 40
    clock.now += 100 * SECOND_NS
    burst = 0
    while slow.has_room("PLAINTEXT"):
        slow.admit(of(HOST))
        burst += 1
    assert burst == 4


def test_a_rate_of_0_accepts_no_connection() -> None:
    clock = Clock()
    closed = quotas(clock, connections_per_s_max=0)
    clock.now += 1000 * SECOND_NS
    assert not closed.has_room("PLAINTEXT")


def test_a_listener_may_have_a_limit_in_addition_to_the_brokers() -> None:
    own = {"PLAINTEXT": ConnectionLimits(5), "B": ConnectionLimits(2)}
    each = ConnectionQuotas(limited(3, listeners=own), Clock())
    assert [each.admit(of(HOST, "B")), each.admit(of(HOST, "B"))] == [True, True]
    assert (each.has_room("B"), each.has_room("PLAINTEXT")) == (False, True)
    assert each.admit(of(HOST))
    assert not each.has_room("PLAINTEXT")
    each.release(of(HOST, "B"))
    assert (each.has_room("B"), each.has_room("PLAINTEXT")) == (True, True)


def test_a_listener_may_have_its_own_rate() -> None:
    clock = Clock()
    own = {"PLAINTEXT": ConnectionLimits(), "B": ConnectionLimits(connections_per_s_max=1)}
    each = ConnectionQuotas(limited(listeners=own), clock)
    assert each.admit(of(HOST, "B"))
    assert (each.has_room("B"), each.has_room("PLAINTEXT")) == (False, True)
    each.limit(limited(listeners={**own, "B": ConnectionLimits()}))
    assert each.has_room("B")


def test_the_limits_on_clients_do_not_apply_to_the_listeners_of_nodes() -> None:
    limits = limited(1, 1, listeners={"INTERNAL": ConnectionLimits(2)}, connections_per_ip_max=1)
    each = ConnectionQuotas(limits.of_nodes(), Clock())
    assert [each.has_room("INTERNAL"), each.admit(of(HOST, "INTERNAL"))] == [True, True]
    assert [each.has_room("INTERNAL"), each.admit(of(HOST, "INTERNAL"))] == [True, True]
    assert not each.has_room("INTERNAL")


class NoPump:
    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def end_when_silent(self) -> None:
        pass

    def serve_last(self, *, last: bool) -> None:
        pass


class Pump(NoPump):
    """A pump that closes its connection."""

    connection: Any

    def close(self) -> None:
        self.connection.closed()


@pytest.mark.parametrize(
    ("limits", "descriptors", "makes_room"),
    [
        (limited(connections_max=3), UNLIMITED, True),
        (limited(listeners={"SASL": ConnectionLimits(3)}), UNLIMITED, True),
        (limited(), 3, True),
        (limited(connections_per_s_max=0), UNLIMITED, False),
    ],
)
def test_clients_that_do_not_log_in_make_room_for_others_that_wait(
    limits: Limits, descriptors: int, makes_room: bool
) -> None:
    clock = Clock()
    connected = Connections(ApiTable(()), NoTasks(), Turns(clock), limits, lambda: descriptors)
    listener = Listener("SASL", connected, sasl=sasl_listener())
    for port in range(3):
        pump = Pump()
        pump.connection = listener(Peer(HOST, port, "::1", 9092), pump)
        clock.now += 1
    clock.now += CROWDED_LOGIN_S_MAX * SECOND_NS - 2
    assert not listener.has_room()
    listener.paused()
    assert (len(connected), listener.has_room()) == ((1, True) if makes_room else (3, False))


def test_clients_that_do_not_log_in_stay_if_another_listener_alone_has_too_many() -> None:
    clock = Clock()
    limits = limited(listeners={"PLAINTEXT": ConnectionLimits(1)})
    connected = Connections(ApiTable(()), NoTasks(), Turns(clock), limits)
    plaintext, sasl = Listener("PLAINTEXT", connected), Listener("SASL", connected, sasl=sasl_listener())
    for port, listener in enumerate((plaintext, sasl)):
        pump = Pump()
        pump.connection = listener(Peer(HOST, port, "::1", 9092), pump)
    clock.now += CROWDED_LOGIN_S_MAX * SECOND_NS
    assert not plaintext.has_room()
    plaintext.paused()
    assert len(connected) == 2


def test_refused_connections_are_counted_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = Clock()
    limits = limited(connections_per_ip_max=1, connections_max=2)
    connected = Connections(ApiTable(()), NoTasks(), Turns(clock), limits)
    listener = Listener("PLAINTEXT", connected)
    connections = [listener(Peer(HOST, port, "::1", 9092), NoPump()) for port in range(1, 1001)]
    assert [connection is not None for connection in connections] == [True] + [False] * 999
    assert connected.statistics().connections_refused == 999
    assert listener(Peer(OTHER, 1, "::1", 9092), NoPump()) is not None
    assert not listener.has_room()
    for _ in range(10):
        listener.paused()
    assert connected.statistics().accept_waits == 10
    assert [f"{HOST}:2" in caplog.messages[0], "further connections wait" in caplog.messages[1]] == [True, True]
    clock.now += 61 * SECOND_NS
    listener(Peer(HOST, 2000, "::1", 9092), NoPump())
    assert len(caplog.messages) == 3
    assert "998 more" in caplog.messages[2]
