"""A listener with TLS, and the reload of its stores when a config or a file changes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.core.config.config import Texts
from pykbroker.core.config.listener_configs import ListenerConfigs
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import TlsSettings, tls_settings
from pykbroker.core.errors import StartError
from pykbroker.server.listener_tls import ListenerTls
from pykbroker.server.strangers import Strangers
from pykbroker.tls.context import day
from pykbroker.world.tls_files import stamp

logger = logging.getLogger(__name__)


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
