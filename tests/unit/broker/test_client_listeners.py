"""Tests of the listeners for clients of a broker that stops, or whose metadata another version has written."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.broker.address import BoundListeners
from pykbroker.broker.client_listeners import ClientListeners
from pykbroker.broker.secured_listeners import SecuredListeners
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.settings import Settings
from tests.unit.broker.bound_here import BoundHere

OWN = ListenerSettings(address=Address("127.0.0.1", 1))
KNOWN = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT"}


class Binding:
    """A network that notes what it binds, and does something else meanwhile."""

    def __init__(self) -> None:
        self.made: list[BoundHere] = []
        self.meanwhile: list[Any] = []

    ticks_ns = staticmethod(lambda: 0)

    def bind(self, host: str, port: int, options: Any) -> BoundHere:
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
        bound = BoundListeners({OWN.name: BoundHere("127.0.0.1", 1)}, {}, SecuredListeners(settings, net))
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
    await rig.follow("NOPE://127.0.0.1:2")
    assert list(rig.listeners.bound) == ["PLAINTEXT", "EXT"]
    assert "listeners stay as they are: " in caplog.text
