"""TLS that is made of configs and files, and that is made again when one of them changes.

1. Stores are read off the event loop: a file may be on a slow or a dead file system.
2. As in Kafka, only the configs of stores change while a listener is open. All others are those of its opening.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import msgspec

from pykbroker.core.config.config import Texts
from pykbroker.core.config.listener_change import STORES
from pykbroker.core.config.listener_configs import listener_prefix
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import ClientTlsSettings, TlsSettings
from pykbroker.core.errors import StartError
from pykbroker.world.tls_files import stamp

S = TypeVar("S", TlsSettings, ClientTlsSettings)
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Read(msgspec.Struct, Generic[S, T], frozen=True):
    """The settings and stores that have changed: what new connections use, or what is wrong with them.

    `seen` is what decides whether they must be read again.
    """

    seen: tuple[object, ...]
    settings: S
    made: T | StartError


class WatchedStores(ABC, Generic[S, T]):
    """The TLS of one listener, or of connections to one. A subclass reads its configs, and makes and uses it.

    Raise StartError if the configs are wrong.
    """

    def __init__(self, listener: ListenerSettings, name: str, texts: Texts) -> None:
        self.listener, self.name, self._opened = listener, name, texts
        self._stores = {start + config for start in ("", listener_prefix(listener.name)) for config in STORES}
        self.settings: S = self.settings_of(texts)
        self._seen = state(texts, self.settings)
        self._refused: object = None
        """The error that was logged last, so that it is logged once."""

    @abstractmethod
    def settings_of(self, texts: Texts) -> S:
        """Return the settings of these configs. Raise StartError if they contradict each other."""

    @abstractmethod
    def made_of(self, settings: S) -> T:
        """Return TLS with these settings. Raise StartError if it cannot be made, or may not follow the one in use."""

    @abstractmethod
    def replace(self, settings: S, made: T) -> str:
        """Use this TLS for new connections. Return a sentence for the log."""

    def read(self, texts: Texts) -> Read[S, T] | None:
        """Read the stores if a config or a file has changed, in any thread. Raise StartError for wrong configs.

        Refused ones are read again each time: a certificate becomes valid, or the other end comes to trust it.
        """
        texts = self._followed(texts)
        settings = self.settings_of(texts)
        seen = state(texts, settings)
        if seen == self._seen:
            return None
        try:
            return Read(seen, settings, self.made_of(settings))
        except StartError as error:
            return Read(seen, settings, error)

    def _followed(self, texts: Texts) -> Texts:
        """Return the configs of the opening with the stores of other ones."""
        kept = {name: text for name, text in self._opened.items() if name not in self._stores}
        return {**kept, **{name: texts[name] for name in self._stores if name in texts}}

    def use(self, read: Read[S, T]) -> StartError | None:
        """Use what was read for new connections, or keep the stores and return what is wrong."""
        if isinstance(read.made, StartError):
            return read.made
        self._seen, self.settings = read.seen, read.settings
        logger.info("%s: %s", self.name, self.replace(read.settings, read.made))
        return None

    def refuse(self, error: StartError, seen: object = None) -> None:
        """Log what is wrong, once."""
        if self._refused != (seen, str(error)):
            self._refused = seen, str(error)
            logger.error("%s. New connections are served as before", error)


def state(texts: Texts, settings: TlsSettings | ClientTlsSettings) -> tuple[object, ...]:
    """Return what decides whether the stores must be read again."""
    stores = [store for store in (settings.keystore, settings.truststore) if store is not None]
    of_tls = {name: text for name, text in texts.items() if "ssl." in name}
    return (of_tls, *(stamp(store.location) for store in stores if store.location is not None))
