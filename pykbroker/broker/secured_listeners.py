"""The TLS of a broker's listeners and of its connections to other nodes, and the task that looks at their stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.listeners import (
    MECHANISM_AT_BROKERS,
    MECHANISM_AT_CONTROLLERS,
    ListenerSettings,
    controllers,
    outgoing_listener,
)
from pykbroker.core.errors import StartError, bad_request
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.settings import Settings
from pykbroker.world.world import World

if TYPE_CHECKING:
    from pykbroker.broker.peer_security import PeerTls
    from pykbroker.broker.secured_listener import SecuredListener
    from pykbroker.broker.watched_stores import WatchedStores
    from pykbroker.server.authentications import Authentications
    from pykbroker.server.listener_tls import ListenerTls

LOOK_S = 3.0
"""The interval at which the files of stores are looked at."""


class SecuredListeners:
    """The TLS of the listeners that have it, and the security of connections to other brokers and to controllers.

    Raise StartError for a listener whose configs or stores are wrong.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self._now = lambda: world.wall_ms() / 1000
        self._world, self._off_loop = world, world.off_loop
        self._open: dict[str, SecuredListener] = {}
        self._peers: list[PeerTls] = []
        self._has_some = trio.Event()
        self._looking = trio.Lock()
        for listener in (*settings.listeners, *settings.controller_listeners):
            if listener.protocol.has_tls:
                self._add(self._made(listener, settings.config))
        self.to_brokers, self.to_controllers = PLAINTEXT, PLAINTEXT
        if settings.has_other_nodes:
            self.to_brokers = self._connecting(settings.listener_of_brokers, MECHANISM_AT_BROKERS, settings.config)
        if settings.quorum:
            of_controllers = outgoing_listener(settings.config.texts, controllers(settings.config.texts)[0])
            self.to_controllers = self._connecting(of_controllers, MECHANISM_AT_CONTROLLERS, settings.config)

    def _connecting(self, listener: ListenerSettings, mechanism_config: str, config: BrokerConfig) -> ClientSecurity:
        """Return the security of connections to a listener of other nodes. Raise StartError for wrong configs."""
        if listener.protocol is SecurityProtocol.PLAINTEXT:
            return PLAINTEXT
        from pykbroker.broker.peer_security import PeerSecurity

        peer = PeerSecurity(listener, mechanism_config, config.texts, self._world)
        if peer.tls is not None:
            self._peers.append(peer.tls)
            self._has_some.set()
            if (own := self._open.get(listener.name)) is not None:
                own.client, peer.tls.server = peer.tls.context, lambda: own.tls.made
        return peer.security

    async def open(self, listener: ListenerSettings, config: BrokerConfig) -> None:
        """Add a listener, if it has TLS. Raise StartError if its configs or stores are wrong."""
        if listener.protocol.has_tls:
            self._add(await self._off_loop(self._made, listener, config))

    def _made(self, listener: ListenerSettings, config: BrokerConfig) -> SecuredListener:
        from pykbroker.broker.secured_listener import SecuredListener  # a broker without TLS starts without it

        return SecuredListener(listener, config.texts, self._now, self._world.ticks_ns)

    def _add(self, one: SecuredListener) -> None:
        self._open[one.name] = one
        self._has_some.set()

    def close(self, listener: str) -> None:
        """Forget a listener that has closed."""
        self._open.pop(listener, None)

    def of(self, listener: str) -> ListenerTls | None:
        """Return the TLS of a listener, or None if it has none."""
        one = self._open.get(listener)
        return None if one is None else one.tls

    def authentications(self) -> dict[str, Authentications]:
        """Return the counts of handshakes by listener."""
        return {name: one.tls.counts for name, one in self._open.items()}

    @property
    def _watched(self) -> list[WatchedStores[Any, Any]]:
        return [*self._open.values(), *self._peers]

    async def check(self, texts: Texts) -> None:
        """Raise ApiError INVALID_REQUEST, as Kafka does, if a listener could not use these configs of the broker."""
        for one in self._watched:
            try:
                read = await self._off_loop(one.read, texts)
                if read is not None and isinstance(read.made, StartError):
                    raise read.made
            except StartError as error:
                raise bad_request(str(error)) from None

    async def look(self, config: Callable[[], BrokerConfig]) -> None:
        """Reload the stores whose configs or files have changed. Those that are wrong stay as they were.

        A listener and the connections to it have the same configs: one log line says what is wrong.
        """
        refused: set[str] = set()
        async with self._looking:  # the config is read inside, so that an older one never follows a newer one
            for one in self._watched:
                problem, seen = None, None
                try:
                    read = await self._off_loop(one.read, config().texts)
                    if read is not None:
                        problem, seen = one.use(read), read.seen
                except StartError as error:
                    problem = error
                if problem is not None and one.listener.name not in refused:
                    one.refuse(problem, seen)
                    refused.add(one.listener.name)

    async def run(self, config: Callable[[], BrokerConfig]) -> None:
        """Look at the files until cancelled."""
        await self._has_some.wait()
        while True:
            await trio.sleep(LOOK_S)
            await self.look(config)
