"""A listener with TLS, and the reload of its stores when a config or a file changes."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from pykbroker.broker.watched_stores import WatchedStores
from pykbroker.core.config.config import Texts
from pykbroker.core.config.listener_configs import ListenerConfigs
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import TlsSettings, tls_settings
from pykbroker.server.listener_tls import ListenerTls
from pykbroker.server.strangers import Strangers
from pykbroker.tls.context import TlsContext, day
from pykbroker.tls.handshake import check_accepted
from pykbroker.world.system_bind import ALL_INTERFACES

logger = logging.getLogger(__name__)


class SecuredListener(WatchedStores[TlsSettings, TlsContext]):
    """One listener with TLS."""

    def __init__(
        self, listener: ListenerSettings, texts: Texts, now: Callable[[], float], ticks: Callable[[], int]
    ) -> None:
        self._now = now
        self.client: Callable[[], ssl.SSLContext] | None = None
        """The context of connections to this listener of other brokers. As in Kafka, new stores have to fit it."""
        super().__init__(listener, listener.name, texts)
        names_principals = not listener.protocol.has_sasl
        self.tls = ListenerTls(self.settings, now(), Strangers(ticks), names_principals=names_principals)
        host = (listener.advertised or listener.address).host
        if host not in ALL_INTERFACES and not self.tls.made.certificate.is_for(host):
            logger.warning(
                "%s: the certificate is not for %s, the host to which clients connect: clients refuse it, unless their"
                " ssl.endpoint.identification.algorithm is empty. Make a certificate for this name",
                self.settings.keystore.place,
                host,
            )

    def settings_of(self, texts: Texts) -> TlsSettings:
        return tls_settings(self.name, ListenerConfigs(texts, self.listener))

    def made_of(self, settings: TlsSettings) -> TlsContext:
        made = self.tls.reloaded(settings, self._now())
        if self.client is not None:
            check_accepted(self.name, made, self.client())
        return made

    def replace(self, settings: TlsSettings, made: TlsContext) -> str:
        self.tls.reload(settings, made)
        shown = made.certificate
        return f"new connections get the certificate of {shown.name}, valid until {day(shown.valid_until)}"
