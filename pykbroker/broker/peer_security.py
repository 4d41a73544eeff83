"""The security of connections to a listener of other nodes: TLS whose stores are reloaded, and a log-in."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykbroker.broker.watched_stores import WatchedStores
from pykbroker.client.errors import AuthenticationError
from pykbroker.client.security import ClientSecurity
from pykbroker.client.tls_hints import TlsHints
from pykbroker.core.config.config import Texts
from pykbroker.core.config.listener_configs import ListenerConfigs, listener_prefix
from pykbroker.core.config.listeners import MECHANISM_AT_BROKERS, MECHANISM_AT_CONTROLLERS, ListenerSettings
from pykbroker.core.config.tls_settings import KEYSTORE, TRUSTSTORE, ClientTlsSettings, client_tls_settings
from pykbroker.core.security.peer_settings import peer_login
from pykbroker.tls.context import TlsContext, client_context
from pykbroker.tls.handshake import check_accepted
from pykbroker.world.rate_limited_warning import RateLimitedWarnings
from pykbroker.world.world import World

if TYPE_CHECKING:
    from pykbroker.core.security.sasl.client import ClientExchange, ClientMechanism

HOSTS = {
    MECHANISM_AT_BROKERS: "set advertised.listeners of the other node to a host that its certificate has",
    MECHANISM_AT_CONTROLLERS: (
        "name a host that the certificate has in controller.quorum.bootstrap.servers, and in advertised.listeners of"
        " the controller"
    ),
}
"""The advice about a certificate of another host, by the config of the mechanism at the listener."""

logger = logging.getLogger(__name__)


class PeerTls(WatchedStores[ClientTlsSettings, ssl.SSLContext]):
    """The TLS of connections to one listener. Open connections keep the context that they began with."""

    def __init__(self, listener: ListenerSettings, texts: Texts, now: Callable[[], float]) -> None:
        self._now = now
        self.server: Callable[[], TlsContext] | None = None
        """The context of this broker's own listener for others. As in Kafka, new stores have to fit it."""
        super().__init__(listener, f"connections to {listener.name}", texts)
        self._context = self.made_of(self.settings)

    def context(self) -> ssl.SSLContext:
        """Return the context of a new connection."""
        return self._context

    def settings_of(self, texts: Texts) -> ClientTlsSettings:
        return client_tls_settings(f"connections to {self.listener.name}", ListenerConfigs(texts, self.listener))

    def made_of(self, settings: ClientTlsSettings) -> ssl.SSLContext:
        made = client_context(settings, self._now())
        if self.server is not None:
            check_accepted(self.name, self.server(), made)
        return made

    def replace(self, settings: ClientTlsSettings, made: ssl.SSLContext) -> str:
        self._context = made
        return "new ones use the stores as they are now"


class NoCredentials:
    """The mechanism of a node without a username: each log-in fails."""

    def __init__(self, name: str, lacks: str) -> None:
        self.name, self._lacks = name, lacks

    def begin(self, nonce: str) -> ClientExchange:
        """Raise AuthenticationError."""
        raise AuthenticationError(self._lacks)


class PeerSecurity:
    """The security of connections to one listener. Raise StartError if its configs or stores are wrong."""

    def __init__(self, listener: ListenerSettings, mechanism_config: str, texts: Texts, world: World) -> None:
        self._name, self._warnings = listener.name, RateLimitedWarnings(logger, world.ticks_ns)
        self._login = peer_login(texts, listener, mechanism_config)
        self.tls = PeerTls(listener, texts, lambda: world.wall_ms() / 1000) if listener.protocol.has_tls else None
        mechanism: ClientMechanism | None = None
        if self._login is not None and self._login.lacks:
            mechanism = NoCredentials(self._login.mechanism, self._login.lacks)
        elif self._login is not None:
            from pykbroker.core.security.sasl.client import client_mechanism

            mechanism = client_mechanism(self._login.mechanism, self._login.user, self._login.password)
        prefix = listener_prefix(listener.name)
        self.security = ClientSecurity(
            None if self.tls is None else self.tls.context,
            mechanism,
            world.rng.getrandbits,
            self._refused,
            self._reason,
            TlsHints(
                f"{prefix}{TRUSTSTORE}.location",
                f"{prefix}{KEYSTORE}.location",
                HOSTS[mechanism_config],
                f"correct the protocol of {listener.name} in listener.security.protocol.map, here or there",
            ),
        )

    def _refused(self, error: AuthenticationError) -> None:
        """Log why this node and another refuse each other, at a bounded rate. The connection is tried again."""
        reason, line = self._reason(error), "%s: this node cannot connect to another, and tries again: %s"
        self._warnings.warn((reason, str(error.code)), line, self._name, reason)

    def _reason(self, error: AuthenticationError) -> str:
        """Return why this node and another refuse each other, and what to do."""
        return str(error) if self._login is None else f"{error}{self._login.advice(error.code)}"
