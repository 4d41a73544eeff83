"""Tests of the limits that configs set for a broker and its listeners."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError
from pykbroker.server.limits import UNLIMITED, ConnectionLimits, Limits

MIB = 1 << 20


def limits(**configs: str) -> Limits:
    return Limits.of(
        BrokerConfig.from_mapping({"node.id": "1", **{name.replace("_", "."): text for name, text in configs.items()}}),
        {"twice.example.org": ("10.0.0.1", "::2")},
        ("PLAINTEXT", "B"),
    )


def test_the_default_limits_are_kafkas() -> None:
    assert limits() == Limits(
        request_bytes_max=100 * MIB,
        connections=ConnectionLimits(UNLIMITED, UNLIMITED),
        listeners={name: ConnectionLimits(UNLIMITED, UNLIMITED) for name in ("PLAINTEXT", "B")},
        connections_per_ip_max=UNLIMITED,
        connections_per_ip_overrides={},
        idle_ms_max=600_000,
        held_requests_max=500,
        held_bytes_max=256 * MIB,
    )


def test_a_listener_without_limits_of_its_own_has_the_limits_of_the_broker() -> None:
    own = {"listener.name.b.max.connections": "5", "listener.name.b.max.connection.creation.rate": "7"}
    found = limits(max_connections="9", **own)
    assert found.connections == ConnectionLimits(9, UNLIMITED)
    assert found.listeners == {"PLAINTEXT": ConnectionLimits(9, UNLIMITED), "B": ConnectionLimits(5, 7)}
    with pytest.raises(ApiError, match="Invalid value x for configuration listener.name.b.max.connections"):
        limits(**{"listener.name.b.max.connections": "x"})


@pytest.mark.parametrize(("queued", "held"), [("-1", 100), ("0", 100), ("99", 99), ("100", 100), ("101", 100)])
def test_the_smaller_of_the_two_byte_budgets_applies(queued: str, held: int) -> None:
    scale = 1 if queued in ("-1", "0") else MIB
    found = limits(
        queued_max_request_bytes=str(int(queued) * scale),
        socket_request_max_bytes=str(MIB),
        pykbroker_memory_budget_bytes=str(400 * MIB),
    )
    assert found.held_bytes_max == held * MIB


def test_connection_limits_may_be_overridden_per_address() -> None:
    found = limits(max_connections_per_ip_overrides=" 127.0.0.1:20, [::1]:5,2001:db8:0::7:9,")
    assert found.connections_per_ip_overrides == {"127.0.0.1": 20, "::1": 5, "2001:db8::7": 9}
    found = limits(max_connections_per_ip_overrides="::ffff:10.0.0.7:3")
    assert found.connections_per_ip_overrides == {"10.0.0.7": 3}
    found = limits(max_connections_per_ip_overrides="::1:5,Twice.example.org:7")
    assert found.connections_per_ip_overrides == {"::1": 5, "10.0.0.1": 7, "::2": 7}


@pytest.mark.parametrize(("queued", "fits"), [(0, True), (MIB - 1, False), (MIB, True)])
def test_queued_max_request_bytes_must_hold_at_least_one_request(queued: int, *, fits: bool) -> None:
    with nullcontext() if fits else pytest.raises(ApiError, match="must not be below socket.request.max.bytes"):
        limits(queued_max_request_bytes=str(queued), socket_request_max_bytes=str(MIB))


def test_max_connections_per_ip_of_0_needs_an_override() -> None:
    assert limits(max_connections_per_ip="0", max_connections_per_ip_overrides="::1:5").connections_per_ip_max == 0
    with pytest.raises(ApiError, match="max.connections.per.ip can be set to zero only"):
        limits(max_connections_per_ip="0")


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "localhost:many",
        "127.0.0.1",
        "127.0.0.1:many",
        "5",
        ":5",
        "1.2.3.4:5;1.2.3.5:6",
        "1.2.3:5",
        "300.1.1.1:5",
        "-a:5",
        "a-:5",
        "a..b:5",
        "a b:5",
        "[localhost]:5",
        "x" * 254 + ":5",
    ],
)
def test_an_invalid_override_prevents_the_start(text: str) -> None:
    with pytest.raises(ApiError, match="is not an IP address or the name of a host, a colon and a number"):
        limits(max_connections_per_ip_overrides=text)
