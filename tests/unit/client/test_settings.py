"""The settings of a client: names with near ones, values with what is allowed, and the servers to begin with."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.client.settings import ClientSettings, InvalidSetting, settings


def test_the_defaults_are_those_of_kafka() -> None:
    found = settings(ClientSettings, {"bootstrap_servers": "localhost"})
    assert (found.request_timeout_ms, found.retry_backoff_ms, found.reconnect_backoff_max_ms) == (30_000, 100, 1000)


def test_names_may_have_dots_and_numbers_may_be_text() -> None:
    found = settings(ClientSettings, {"bootstrap.servers": "a:1,b", "retry.backoff.ms": "7"})
    assert found.addresses() == [("a", 1), ("b", 9092)]
    assert found.retry_backoff_ms == 7


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("a", [("a", 9092)]),
        (["a:1", "[::1]:2", "[::1]"], [("a", 1), ("::1", 2), ("::1", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
    ],
)
def test_the_default_port_of_a_server_is_9092(servers: Any, addresses: list[tuple[str, int]]) -> None:
    assert settings(ClientSettings, {"bootstrap_servers": servers}).addresses() == addresses


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "bootstrap_servers is missing: pass HOST:PORT of a broker"),
        ({"bootstrap_servers": ","}, "bootstrap_servers names no broker"),
        ({"bootstrap_servers": "a:b"}, "bootstrap_servers: 'b' in 'a:b' is not a port: 0 to 65535"),
        ({"bootstrap_servers": 5}, "bootstrap_servers=5 is not allowed: expected `str | array`, got `int`"),
        ({"request_timeout": 1}, "there is no setting 'request_timeout': do you mean 'request_timeout_ms'?"),
        ({"zzz": 1}, "there is no setting 'zzz'"),
        ({"retry_backoff_ms": -1}, "retry_backoff_ms=-1 is not allowed: expected `int` >= 0"),
        ({"metadata_recovery_strategy": "x"}, "'x' is not allowed: use 'none', 'rebootstrap'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(given: dict[str, Any], text: str) -> None:
    servers = {} if not given or "bootstrap_servers" in given else {"bootstrap_servers": "a"}
    with pytest.raises(InvalidSetting) as error:
        settings(ClientSettings, servers | given)
    assert text in str(error.value)
