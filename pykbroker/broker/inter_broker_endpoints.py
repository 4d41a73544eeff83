"""The endpoints at which brokers reach each other: their listeners named `inter.broker.listener.name`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.core.metadata.image import BrokerImage, Endpoint, MetadataImage

logger = logging.getLogger(__name__)


class InterBrokerEndpoints:
    """The endpoints of all brokers on the listener with the name that this broker's config has.

    A broker without such a listener can be reached by no other broker. A warning names each such broker once.
    `security` is that of connections to the listener.
    """

    def __init__(self, image: Callable[[], MetadataImage], listener: str, security: ClientSecurity = PLAINTEXT) -> None:
        self._image, self._listener, self.security = image, listener, security
        self._warned: set[int] = set()

    def registered(self, broker_id: int) -> Endpoint | None:
        """Return the endpoint of a broker, or None if it is not registered or lacks the listener."""
        broker = self._image().cluster.brokers.get(broker_id)
        return None if broker is None else self._of(broker)

    def live(self, broker_id: int) -> Endpoint | None:
        """Return the endpoint of a broker, or None if it is fenced, not registered, or lacks the listener."""
        broker = self._image().cluster.brokers.get(broker_id)
        return None if broker is None or broker.fenced else self._of(broker)

    def _of(self, broker: BrokerImage) -> Endpoint | None:
        endpoint = broker.endpoint(self._listener)
        if endpoint is None and broker.id not in self._warned:
            self._warned.add(broker.id)
            names = ", ".join(each.name for each in broker.endpoints) or "none"
            logger.warning(
                "broker %d has no listener %s (its listeners: %s): this broker cannot fetch from it or send"
                " to it. Start it with that listener, or correct inter.broker.listener.name",
                broker.id,
                self._listener,
                names,
            )
        return endpoint
