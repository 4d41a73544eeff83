"""The fencing of a broker whose connection has ended, with real sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.quorum import heartbeat_links
from pykbroker.quorum.heartbeat_links import HeartbeatLinks
from pykbroker.world.system_net import SystemNet
from tests.unit.server.rig import SESSION

LISTENER, EPOCH = "INTERNAL", 7
ENDED, REFUSED = BrokerGone(2, EPOCH), BrokerGone(2, EPOCH, refused=True)


class Controller:
    """The links of a controller that knows broker 2, whose heartbeats came on a connection."""

    def __init__(self, port: int, nursery: trio.Nursery) -> None:
        def endpoint(name: str) -> Any:
            return SimpleNamespace(host="127.0.0.1", port=port) if name == LISTENER else None

        broker = SimpleNamespace(epoch=EPOCH, fenced=False, endpoint=endpoint)
        cluster: Any = SimpleNamespace(brokers={2: broker})
        self.notices: list[BrokerGone] = []
        self._noted = trio.Event()
        net = SystemNet()
        self.links = HeartbeatLinks(net, lambda: cluster, LISTENER, self._note)
        nursery.start_soon(net.run)
        nursery.start_soon(self.links.run)

    def lose(self, epoch: int = EPOCH) -> None:
        """End the connection on which the broker of this epoch sent its heartbeats, after another log-in on it."""
        self.links.note(SESSION, 2, epoch)
        self.links.closed(replace(SESSION, principal="User:broker"))

    def _note(self, notice: BrokerGone) -> None:
        self.notices.append(notice)
        self._noted.set()

    async def wait_for_notices(self, count: int) -> list[BrokerGone]:
        """Return the notices once there are so many."""
        while len(self.notices) < count:
            self._noted = trio.Event()
            await self._noted.wait()
        return self.notices


async def listener() -> trio.SocketListener:
    (found,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return found


def port_of(listening: trio.SocketListener) -> int:
    port: int = listening.socket.getsockname()[1]
    return port


async def refusing_port() -> int:
    """Return a port of this machine on which nobody listens any more."""
    listening = await listener()
    port = port_of(listening)
    await listening.aclose()
    return port


async def test_a_broker_whose_port_refuses_is_gone() -> None:
    async with trio.open_nursery() as nursery:
        controller = Controller(await refusing_port(), nursery)
        controller.lose()
        assert await controller.wait_for_notices(2) == [ENDED, REFUSED]
        nursery.cancel_scope.cancel()


async def test_a_listener_that_a_killed_process_closes_last_is_found_by_a_later_attempt() -> None:
    listening = await listener()
    async with trio.open_nursery() as nursery:
        controller = Controller(port_of(listening), nursery)
        controller.lose()
        (await listening.accept()).socket.close()
        assert controller.notices == [ENDED]
        await listening.aclose()
        assert await controller.wait_for_notices(2) == [ENDED, REFUSED]
        nursery.cancel_scope.cancel()


async def test_the_session_decides_about_a_broker_that_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_links, "PROBE_S_MAX", 0.2)
    listening = await listener()
    async with trio.open_nursery() as nursery:
        controller = Controller(port_of(listening), nursery)
        controller.lose()
        while True:
            with trio.move_on_after(0.5) as waited:
                (await listening.accept()).socket.close()
            if waited.cancelled_caught:  # no attempt after the last one
                break
        assert controller.notices == [ENDED]
        await listening.aclose()
        nursery.cancel_scope.cancel()


async def test_an_older_epoch_of_a_broker_is_not_probed() -> None:
    async with trio.open_nursery() as nursery:
        controller = Controller(await refusing_port(), nursery)
        controller.lose(EPOCH - 1)
        controller.lose()
        assert await controller.wait_for_notices(2) == [ENDED, REFUSED]
        nursery.cancel_scope.cancel()
