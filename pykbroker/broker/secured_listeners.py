"""The listeners with TLS, and the reload of their stores when a config or a file changes."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.listener_configs import ListenerConfigs
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import TlsSettings, tls_settings
from pykbroker.core.errors import StartError, bad_request
from pykbroker.core.settings import Settings
from pykbroker.server.listener_tls import ListenerTls
from pykbroker.server.strangers import Strangers
from pykbroker.tls.context import day
from pykbroker.world.tls_files import stamp
from pykbroker.world.world import World

LOOK_S = 3.0
"""The interval at which the files of stores are looked at."""

logger = logging.getLogger(__name__)


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


class SecuredListener:
    """One listener with TLS, and the configs and files that it was made of."""

    def __init__(
        self, listener: ListenerSettings, texts: Texts, now: Callable[[], float], ticks: Callable[[], int]
    ) -> None:
        self._listener, self._now = listener, now
        self._refused: object = None
        """The error that was logged last, so that it is logged once."""
        settings = self._settings(texts)
        self._seen = self._state(texts, settings)
        self.tls = ListenerTls(settings, now(), Strangers(ticks), names_principals=not listener.protocol.has_sasl)
        host = None if listener.advertised is None else listener.advertised.host
        if host is not None and not self.tls.made.certificate.is_for(host):
            logger.warning(
                "%s: the certificate is not for %s, the advertised host: clients refuse it, unless their"
                " ssl.endpoint.identification.algorithm is empty. Make a certificate for this name",
                settings.keystore.place,
                host,
            )

    def check(self, texts: Texts) -> None:
        """Raise StartError if the listener could not use these configs."""
        settings = self._settings(texts)
        if self._state(texts, settings) != self._seen:
            self.tls.reloaded(settings, self._now())

    def look(self, texts: Texts) -> None:
        """Reload the stores if a config or a file has changed, or keep them and log what is wrong."""
        try:
            settings = self._settings(texts)
            seen = self._state(texts, settings)
            if seen == self._seen:
                return
            self._seen = seen
            self.tls.reload(settings, self._now())
        except StartError as error:
            if self._refused != (self._seen, str(error)):
                self._refused = self._seen, str(error)
                logger.error("%s. New connections are served as before", error)
            return
        shown = self.tls.made.certificate
        name, until = shown.name, day(shown.valid_until)
        logger.info("%s: new connections get the certificate of %s, valid until %s", self._listener.name, name, until)

    def _settings(self, texts: Texts) -> TlsSettings:
        return tls_settings(self._listener.name, ListenerConfigs(texts, self._listener))

    def _state(self, texts: Texts, settings: TlsSettings) -> tuple[object, ...]:
        """Return what decides whether the stores must be read again."""
        stores = [store for store in (settings.keystore, settings.truststore) if store is not None]
        of_tls = {name: text for name, text in texts.items() if "ssl." in name}
        return (of_tls, *(stamp(store.location) for store in stores if store.location is not None))


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
