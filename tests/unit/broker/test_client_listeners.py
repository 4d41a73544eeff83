"""Tests of the listeners for clients of a broker that stops, or whose metadata another version has written."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trustme import CA

from pykbroker.broker.address import BoundListeners
from pykbroker.broker.client_listeners import ClientListeners
from pykbroker.broker.secured_listeners import SecuredListeners
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.settings import Settings
from tests.unit.broker.bound_here import BoundHere

OWN = ListenerSettings(address=Address("127.0.0.1", 1))
KNOWN = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT"}
PREFIX = "listener.name.ext.ssl.keystore."
SECURED = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:SSL"}


class Binding:
    """A network that notes what it binds, and does something else meanwhile."""

    def __init__(self) -> None:
        self.made: list[BoundHere] = []
        self.meanwhile: list[Any] = []
        self.refuses = False

    def bind(self, host: str, port: int, options: Any) -> BoundHere:
        if self.refuses:
            raise OSError
        self.made.append(BoundHere(host, port))
        return self.made[-1]

    async def off_loop(self, function: Any, *args: Any) -> Any:
        found = function(*args)
        for each in self.meanwhile:
            each()
        return found


class Rig:
    def __init__(self) -> None:
        self.config, self.net = BrokerConfig.from_mapping(KNOWN), Binding()
        settings = Settings(self.config, ("/nowhere",), (OWN,))
        net: Any = self.net
        world: Any = SimpleNamespace(
            ticks_ns=lambda: 0, wall_ms=lambda: int(1000 * time.time()), off_loop=self.net.off_loop
        )
        bound = BoundListeners({OWN.name: BoundHere("127.0.0.1", 1)}, {}, SecuredListeners(settings, world))
        self.listeners = ClientListeners(net, self.net.off_loop, settings, bound)

    async def follow(self, listeners: str) -> None:
        await self.listeners.follow(self.config.with_dynamic({}, {"listeners": listeners}))


async def test_a_listener_that_is_bound_while_the_broker_stops_is_closed() -> None:
    rig = Rig()
    rig.net.meanwhile.append(rig.listeners.close)
    await rig.follow("PLAINTEXT://127.0.0.1:1,EXT://127.0.0.1:2")
    assert [bound.is_closed for bound in rig.net.made] == [True]
    assert list(rig.listeners.bound) == ["PLAINTEXT"]


async def test_listeners_that_cannot_be_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    await rig.follow("PLAINTEXT://127.0.0.1:1,EXT://127.0.0.1:2")
    for impossible in ("NOPE://127.0.0.1:2", "EXT://127.0.0.1:2"):
        await rig.follow(impossible)
        assert list(rig.listeners.bound) == ["PLAINTEXT", "EXT"]
        assert not any(bound.is_closed for bound in rig.net.made)
    assert "listeners stay as they are: Error creating broker listeners from " in caplog.text
    assert "listeners stay as they are: the dynamic config lacks PLAINTEXT" in caplog.text


async def test_a_listener_with_tls_is_opened_once_it_has_a_keystore(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    declared = {"listeners": "PLAINTEXT://127.0.0.1:1,EXT://127.0.0.1:2", **SECURED}
    without = rig.config.with_dynamic({}, declared)
    for _ in range(2):
        await rig.listeners.follow(without)
    assert (rig.net.made, list(rig.listeners.bound), rig.listeners.secured.of("EXT")) == ([], ["PLAINTEXT"], None)
    assert caplog.text.count("listener EXT: it cannot be opened on 127.0.0.1:2: EXT: ") == 1
    store = tmp_path / "store.pem"
    CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(store)
    own = {f"{PREFIX}type": "PEM", f"{PREFIX}location": str(store)}
    rig.net.refuses = True
    await rig.listeners.follow(rig.config.with_dynamic({}, {**declared, **own}))
    assert (list(rig.listeners.bound), rig.listeners.secured.of("EXT")) == (["PLAINTEXT"], None)
    rig.net.refuses = False
    await rig.listeners.follow(rig.config.with_dynamic({}, {**declared, **own}))
    assert list(rig.listeners.bound) == ["PLAINTEXT", "EXT"]
    assert rig.listeners.secured.of("EXT") is not None


async def test_only_a_listener_of_the_start_that_cannot_be_served_ends_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, refused = Rig(), ["EXT"]
    await rig.follow("PLAINTEXT://127.0.0.1:1,EXT://127.0.0.1:2")

    def acceptor(listener: ListenerSettings, config: BrokerConfig) -> Any:
        if listener.name in refused:
            raise StartError("no log-in")

    rig.listeners.serve(acceptor)
    assert [(name, bound.listens) for name, bound in rig.listeners.bound.items()] == [("PLAINTEXT", True)]  # type: ignore[attr-defined]
    assert [(bound.listens, bound.is_closed) for bound in rig.net.made] == [(False, True)]
    assert "listener EXT: it cannot be opened: no log-in" in caplog.text
    refused.append("PLAINTEXT")
    with pytest.raises(StartError, match="no log-in"):
        rig.listeners.serve(acceptor)
