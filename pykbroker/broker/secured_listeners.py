"""The listeners with TLS of a broker, and the task that looks at the files of their stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError, bad_request
from pykbroker.core.settings import Settings
from pykbroker.world.world import World

if TYPE_CHECKING:
    from pykbroker.broker.secured_listener import SecuredListener
    from pykbroker.server.listener_tls import ListenerTls

LOOK_S = 3.0
"""The interval at which the files of stores are looked at."""


class SecuredListeners:
    """The TLS of the listeners that have it. Raise StartError for one whose configs or stores are wrong."""

    def __init__(self, settings: Settings, world: World) -> None:
        self._now = lambda: world.wall_ms() / 1000
        self._ticks = world.ticks_ns
        self._open: dict[str, SecuredListener] = {}
        self._has_some = trio.Event()
        for listener in (*settings.listeners, *settings.controller_listeners):
            self.open(listener, settings.config)
        check_peers(settings)

    def open(self, listener: ListenerSettings, config: BrokerConfig) -> None:
        """Add a listener, if it has TLS. Raise StartError if its configs or stores are wrong."""
        if listener.protocol.has_tls:
            from pykbroker.broker.secured_listener import SecuredListener  # a broker without TLS starts without it

            self._open[listener.name] = SecuredListener(listener, config.texts, self._now, self._ticks)
            self._has_some.set()

    def close(self, listener: str) -> None:
        """Forget a listener that has closed."""
        self._open.pop(listener, None)

    def of(self, listener: str) -> ListenerTls | None:
        """Return the TLS of a listener, or None if it has none."""
        one = self._open.get(listener)
        return None if one is None else one.tls

    def check(self, texts: Texts) -> None:
        """Raise ApiError INVALID_REQUEST, as Kafka does, if a listener could not use these configs of the broker."""
        for one in self._open.values():
            try:
                one.check(texts)
            except StartError as error:
                raise bad_request(str(error)) from None

    def look(self, config: BrokerConfig) -> None:
        """Reload the stores whose configs or files have changed. Those that are wrong stay as they were."""
        for one in list(self._open.values()):
            one.look(config.texts)

    async def run(self, config: Callable[[], BrokerConfig]) -> None:
        """Look at the files until cancelled."""
        await self._has_some.wait()
        while True:
            await trio.sleep(LOOK_S)
            self.look(config())


def check_peers(settings: Settings) -> None:
    """Raise StartError if other brokers would have to connect to a listener with TLS, which they cannot yet."""
    if not settings.has_other_nodes:
        return
    of_nodes = [each for each in settings.listeners if each.name == settings.inter_broker_listener]
    for listener in (*of_nodes, *settings.controller_listeners):
        if listener.protocol.has_tls:
            raise StartError(
                f"{listener.name} uses {listener.protocol.name}, and brokers connect to each other without TLS: give"
                " them a listener with the protocol PLAINTEXT by inter.broker.listener.name"
            )
