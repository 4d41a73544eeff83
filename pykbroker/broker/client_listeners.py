"""The listeners for clients of a running broker, which its dynamic configs open and close (KIP-226).

1. The listeners of the start are bound before the log directories are opened. Those that the metadata adds are bound
   once the broker serves, and after each change of the configs.
2. A listener that is removed closes at once, with its connections.
3. As in Kafka, an open listener keeps its address, and the registration of the broker keeps the listeners of its start.
   Clients of an added listener get the address that they connected to, and no other broker that has no such listener.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pykbroker.broker.address import close, listen, socket_options
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listener_change import declared_listeners
from pykbroker.core.config.listeners import LISTENERS, Addresses, controllers
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.security.session import Authorizer
from pykbroker.core.settings import Settings
from pykbroker.server.connections import Connections
from pykbroker.server.listener import Listener
from pykbroker.world.net import Bound, Net
from pykbroker.world.off_loop import OffLoop

logger = logging.getLogger(__name__)


class ClientListeners:
    """The bound addresses of the listeners for clients. `bound` has those of the start."""

    def __init__(self, net: Net, off_loop: OffLoop, settings: Settings, bound: Mapping[str, Bound]) -> None:
        self._net, self._off_loop, self._config = net, off_loop, settings.config
        self.bound = dict(bound)
        self._declared: Addresses = {each.name: each.address for each in settings.listeners}
        self._of_start = self._declared
        self._connections: Callable[[str], Connections] | None = None
        self._authorizer_of: Callable[[str], Authorizer | None] = lambda _: None

    def names(self, config: BrokerConfig) -> list[str]:
        """Return the names of the listeners that this config of the broker declares."""
        return [*self._addresses(config)]

    async def follow(self, config: BrokerConfig) -> None:
        """Open and close listeners as this config of the broker declares.

        The limits of new listeners must have been set. A listener that cannot be opened is logged, and stays closed
        until the declared listeners change again.
        """
        declared = self._addresses(config)
        if declared == self._declared:
            return
        for name in self.bound.keys() - declared.keys():
            self._close(name)
        for name, address in declared.items():
            if name not in self.bound:
                await self._open(name, address)
            elif address not in (self._declared.get(name), self._own(name)):
                logger.warning("listener %s: it is open and stays on %s, not on %s", name, self._own(name), address)
        self._declared = declared

    def serve(
        self, connections: Callable[[str], Connections], authorizer_of: Callable[[str], Authorizer | None]
    ) -> None:
        """Accept the clients of all listeners, from now on also of new ones. Both functions take a listener's name.

        Raise StartError if another broker already listens on an address.
        """
        self._connections, self._authorizer_of = connections, authorizer_of
        for name, bound in self.bound.items():
            listen(bound, Listener(name, connections(name), authorizer_of(name)))

    def close(self) -> None:
        """Stop accepting on all addresses."""
        close(self.bound)

    def _addresses(self, config: BrokerConfig) -> Addresses:
        """Return the declared addresses. Without a dynamic config they are those of the start."""
        if LISTENERS not in config.broker:
            return self._of_start
        try:
            declared = declared_listeners(config.texts)
        except ApiError as error:  # the metadata may be that of another version, which took what this one refuses
            logger.error("listeners stay as they are: %s", error)
            return self._declared
        return {name: each.address for name, each in declared.items() if name not in controllers(config.texts)}

    async def _open(self, name: str, address: Address) -> None:
        try:  # a name of a host is looked up for as long as the resolver takes
            bound = await self._off_loop(self._net.bind, *address, socket_options(self._config, of_nodes=False))
            if self._connections is not None:
                listen(bound, Listener(name, self._connections(name), self._authorizer_of(name)))
        except (OSError, StartError) as error:
            logger.error("listener %s: it cannot be opened on %s: %s", name, address, error)
            return
        self.bound[name] = bound
        logger.info("listener %s: opened on %s", name, self._own(name))

    def _close(self, name: str) -> None:
        self.bound.pop(name).close()
        closed = 0 if self._connections is None else self._connections(name).close_listener(name)
        logger.info("listener %s: closed, with %d connections", name, closed)

    def _own(self, name: str) -> Address:
        return Address(self.bound[name].host, self.bound[name].port)
