"""Tests of host names in connection limits: each is looked up once, and an unknown host does not affect others."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from pykbroker import broker
from pykbroker.core.errors import StartError
from pykbroker.server.host_names import LOOK_UP_S_MAX, HostNames, by_address
from pykbroker.world.system_net import SystemNet
from tests.unit.apis.conftest import serving, settings
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

UNKNOWN = "nobody.invalid"
BROKER = 4


class Names:
    """A resolver that resolves exactly one host."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def addresses(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        if host != "known":
            raise OSError("no such host")
        return ("10.0.0.1", "::2")


async def test_names_are_looked_up_and_ip_addresses_are_not(caplog: pytest.LogCaptureFixture) -> None:
    names = Names()
    counts = {"127.0.0.1": 1, "known": 2, "::1": 3, "other": 4}
    named = await HostNames(names).addresses(counts)
    assert names.asked == ["known", "other"]
    assert by_address(counts, named) == {"127.0.0.1": 1, "10.0.0.1": 2, "::2": 2, "::1": 3}
    assert ["other" in line for line in caplog.messages] == [True]


async def test_a_name_is_looked_up_once_while_configs_contain_it() -> None:
    names = Names()
    hosts = HostNames(names)
    for asked in (["known", "other"], ["known"], ["known", "other"]):
        found = await hosts.addresses(asked)
        assert found["known"] == ("10.0.0.1", "::2")
    assert names.asked == ["known", "other", "other"]


async def test_metadata_is_applied_without_waiting_for_the_resolver(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The task that looks up names also applies the metadata of topics."""

    class Silent(Names):
        async def addresses(self, host: str) -> tuple[str, ...]:
            if host != "known":
                await trio.sleep_forever()
            return await super().addresses(host)

    found = await HostNames(Silent()).addresses(["known", "silent", "silent.too"])
    assert trio.current_time() <= LOOK_UP_S_MAX
    assert found == {"known": ("10.0.0.1", "::2"), "silent": (), "silent.too": ()}
    assert [line.split()[2] for line in caplog.messages] == ["silent", "silent.too"]


async def test_the_name_of_this_machine_is_resolved() -> None:
    net = SystemNet()
    assert "127.0.0.1" in await net.addresses("localhost")
    with pytest.raises(socket.gaierror):
        await net.addresses(UNKNOWN)


async def test_a_host_name_may_have_its_own_connection_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, max_connections_per_ip_overrides="localhost:1") as local_broker:
        first = await local_broker.connect()
        refused = await local_broker.connect()
        assert await refused.closed()
        change = AlterConfigsResource(
            BROKER, "", [AlterableConfig("max.connections.per.ip.overrides", 0, f"{UNKNOWN}:1,localhost:2")]
        )
        response = await first.call(IncrementalAlterConfigsRequest(resources=[change]), 1)
        assert response.responses[0].error_code == 0
        second = await local_broker.connect()
        await second.create("served")


async def test_a_start_looks_up_each_host_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names()
    monkeypatch.setattr(SystemNet, "addresses", lambda net, host: names.addresses(host))
    async with serving(tmp_path, max_connections_per_ip_overrides="known:1"):
        assert names.asked == ["known"]


async def test_a_host_that_cannot_be_resolved_prevents_the_start(tmp_path: Path) -> None:
    options = settings(tmp_path, max_connections_per_ip_overrides=f"{UNKNOWN}:5")
    with pytest.raises(StartError, match=rf"{UNKNOWN} has no address in DNS"):
        await broker.serve(options, lambda serving: None, stop=trio.Event())
    assert os.listdir(tmp_path) == []
