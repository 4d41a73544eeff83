"""The listeners for clients of a running broker, which its dynamic configs open and close (KIP-226).

1. The listeners of the start are bound before the log directories are opened. Those that the metadata adds are bound
   once the broker serves, and after each change of the configs.
2. A listener that is removed closes at once, with its connections.
3. As in Kafka, an open listener keeps its address, and the registration of the broker keeps the listeners of its start.
   Clients of an added listener get the address that they connected to, and no other broker that has no such listener.
4. As in Kafka, a listener of the start has the log-in of the static configs, whatever dynamic ones were set since. A
   broker therefore starts whatever they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.broker.address import BoundListeners, close, listen, socket_options
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listener_change import Listeners, advertised_names, declared_listeners
from pykbroker.core.config.listeners import LISTENERS, ListenerSettings, controllers
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.settings import Settings
from pykbroker.server.listener import Listener
from pykbroker.world.net import Bound, Net
from pykbroker.world.off_loop import OffLoop

logger = logging.getLogger(__name__)


class ClientListeners:
    """The bound addresses of the listeners for clients. `bound` has those of the start."""

    def __init__(self, net: Net, off_loop: OffLoop, settings: Settings, bound: BoundListeners) -> None:
        self._net, self._off_loop, self._config = net, off_loop, settings.config
        self.bound, self.secured = dict(bound.clients), bound.secured
        self._declared: Listeners = {each.name: each for each in settings.listeners}
        self._of_start = self._declared
        self._staying = {*advertised_names(settings.config.texts, self._of_start), settings.inter_broker_listener}
        self._followed = settings.config
        self._acceptor: Callable[[ListenerSettings, BrokerConfig], Listener] | None = None
        self._accepting: dict[str, Listener] = {}
        self._since_start = {*self.bound}
        """The listeners of the start that have not been closed."""
        self._is_closed = False

    def names(self, config: BrokerConfig) -> list[str]:
        """Return the names of the listeners that this config of the broker declares."""
        return [*self._listeners(config)]

    async def follow(self, config: BrokerConfig) -> None:
        """Open and close listeners as this config of the broker declares.

        The limits of new listeners must have been set. A listener that cannot be opened is logged, and tried again with
        each other config.
        """
        if config is self._followed:
            return
        before, self._declared, self._followed = self._declared, self._listeners(config), config
        for name in self.bound.keys() - self._declared.keys():
            self._close(name)
        for name, listener in self._declared.items():
            if name not in self.bound:
                await self._open(listener, config)
            elif listener.address not in (before[name].address if name in before else None, self._own(name)):
                logger.warning(
                    "listener %s: it is open and stays on %s, not on %s", name, self._own(name), listener.address
                )

    def serve(self, acceptor: Callable[[ListenerSettings, BrokerConfig], Listener]) -> None:
        """Accept the clients of all listeners, from now on also of new ones, each by an acceptor under the config.

        Raise StartError if a listener of the start cannot be opened. One that the metadata adds is logged.
        """
        self._acceptor = acceptor
        for name, bound in list(self.bound.items()):
            try:
                self._listen(name, bound)
            except StartError as error:
                if name in self._of_start:
                    raise
                logger.error("listener %s: it cannot be opened: %s", name, error)
                self._close(name)

    def close(self) -> None:
        """Stop accepting on all addresses, for good."""
        self._is_closed = True
        close(self.bound)

    def _listeners(self, config: BrokerConfig) -> Listeners:
        """Return the declared listeners. Without a dynamic config they are those of the start."""
        if LISTENERS not in config.broker:
            return self._of_start
        try:
            declared = declared_listeners(config.texts)
        except ApiError as error:  # the metadata may be that of another version, which took what this one refuses
            logger.error("listeners stay as they are: %s", error)
            return self._declared
        if missing := self._staying - declared.keys():
            # the broker was started with other listeners than those to which the metadata added some
            logger.error("listeners stay as they are: the dynamic config lacks %s", ", ".join(sorted(missing)))
            return self._declared
        return {name: each for name, each in declared.items() if name not in controllers(config.texts)}

    async def _open(self, listener: ListenerSettings, config: BrokerConfig) -> None:
        name, address, options = listener.name, listener.address, socket_options(self._config, of_nodes=False)
        bound: Bound | None = None
        try:
            await self.secured.open(listener, config)
            # a name of a host is looked up for as long as the resolver takes
            bound = await self._off_loop(self._net.bind, *address, options)
            if self._is_closed:  # meanwhile
                bound.close()
                return
            self._listen(name, bound)
        except (OSError, StartError) as error:
            if bound is not None:
                bound.close()
            self.secured.close(name)
            logger.error("listener %s: it cannot be opened on %s: %s", name, address, error)
            return
        self.bound[name] = bound
        logger.info("listener %s: opened on %s", name, self._own(name))

    def _listen(self, name: str, bound: Bound) -> None:
        if self._acceptor is not None:
            if name in self._since_start:
                accepting = self._acceptor(self._of_start[name], self._config)
            else:
                accepting = self._acceptor(self._declared[name], self._followed)
            listen(bound, accepting, self.secured.of(name))
            self._accepting[name] = accepting

    def _close(self, name: str) -> None:
        self.bound.pop(name).close()
        self._since_start.discard(name)
        self.secured.close(name)
        accepting = self._accepting.pop(name, None)
        closed = 0 if accepting is None else accepting.close()
        logger.info("listener %s: closed, with %d connections", name, closed)

    def _own(self, name: str) -> Address:
        return Address(self.bound[name].host, self.bound[name].port)
