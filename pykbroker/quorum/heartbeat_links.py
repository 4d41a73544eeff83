"""The connections on which brokers send their heartbeats to the controller.

When such a connection ends, the controller connects to the broker for up to a second. If the broker's port refuses a
connection, the broker's process has ended and it is fenced at once. Otherwise its session decides. One attempt is not
enough: the kernel closes the sockets of a killed process one after the other, and its listener may be the last of them.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.client.connection import open_connection
from pykbroker.client.errors import is_refusal
from pykbroker.core.address import Address
from pykbroker.core.metadata.image import ClusterImage
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.security.session import ConnectionKey, Session
from pykbroker.world.net import Net

PROBE_S_MAX, PROBE_INTERVAL_S = 1.0, 0.05
PROBE_CLIENT_ID = "pykbroker-probe"


class HeartbeatLinks:
    """The broker of each connection. `run` must run.

    `cluster` returns the registered brokers, `listener` is the name of the listener to connect to, and `gone` takes the
    notices.
    """

    def __init__(
        self, net: Net, cluster: Callable[[], ClusterImage], listener: str, gone: Callable[[BrokerGone], None]
    ) -> None:
        self._net, self._cluster, self._listener, self._gone = net, cluster, listener, gone
        self._brokers: dict[ConnectionKey, tuple[int, int]] = {}
        self._ended: list[tuple[int, int]] = []
        self._noted = trio.Event()

    def note(self, session: Session, broker_id: int, broker_epoch: int) -> None:
        """Note that a broker sends its heartbeats on this connection."""
        self._brokers[session.connection] = broker_id, broker_epoch

    def closed(self, session: Session) -> None:
        """Note that a connection has ended."""
        broker = self._brokers.pop(session.connection, None)
        # The broker may have opened another connection before this one has ended.
        if broker is not None and broker not in self._brokers.values():
            self._ended.append(broker)
            self._noted.set()

    async def run(self) -> None:
        """Probe brokers whose connections have ended, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._noted.wait()
                self._noted, ended, self._ended = trio.Event(), self._ended, []
                for broker_id, epoch in ended:
                    nursery.start_soon(self._probe, broker_id, epoch)

    async def _probe(self, broker_id: int, broker_epoch: int) -> None:
        broker = self._cluster().brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch or broker.fenced:
            return
        self._gone(BrokerGone(broker_id, broker_epoch))
        endpoint = broker.endpoint(self._listener)
        if endpoint is not None and await self._refuses(Address(endpoint.host, endpoint.port)):
            self._gone(BrokerGone(broker_id, broker_epoch, refused=True))

    async def _refuses(self, address: Address) -> bool:
        """Whether one of the connections that are tried within PROBE_S_MAX is refused."""
        with trio.move_on_after(PROBE_S_MAX):
            while True:
                if await self._refuses_once(address):
                    return True
                await trio.sleep(PROBE_INTERVAL_S)
        return False

    async def _refuses_once(self, address: Address) -> bool:
        try:
            connection = await open_connection(self._net, *address, PROBE_CLIENT_ID)
        except OSError as error:
            return is_refusal(error)
        connection.close()
        return False
