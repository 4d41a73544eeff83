"""The settings that a broker is started with, and the facts that it reports when it is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pykbroker.core.address import Address
from pykbroker.core.cluster_id import RequiredClusterId
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import PLAINTEXT, ListenerSettings
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.new_user import NewUser


class Settings(msgspec.Struct, frozen=True):
    """The settings of one broker."""

    config: BrokerConfig
    data_dirs: tuple[str, ...]
    listeners: tuple[ListenerSettings, ...] = (ListenerSettings(),)
    """The listeners for clients, at least one."""
    inter_broker_listener: str = PLAINTEXT
    """The name of the listener that other brokers connect to."""
    controller_listeners: tuple[ListenerSettings, ...] = ()
    """The listeners of the controller, for other brokers. Without one, the controller serves this process alone."""
    quorum: tuple[Address, ...] = ()
    """The addresses of the controller if it runs in another process, else empty."""
    cluster_id: RequiredClusterId | None = None
    """The cluster id that empty log directories are formatted with, and that others must have."""
    memory: bool = False
    """Whether data is temporary: log directories are deleted at the end and never flushed to the device."""
    discards: bool = False
    """Whether no start follows the stop of this broker, so that the stop writes neither logs nor checkpoints."""
    topics: tuple[NewTopic, ...] = ()
    """The topics that are created before the first client is served, unless they exist."""
    users: tuple[NewUser, ...] = ()
    """The users that are made before the first client is served."""

    @property
    def listener_of_brokers(self) -> ListenerSettings:
        """Return the listener that other brokers connect to."""
        (found,) = (each for each in self.listeners if each.name == self.inter_broker_listener)
        return found

    @property
    def listeners_of_controller(self) -> tuple[ListenerSettings, ...]:
        """Return the listeners at which the controller is found: its own, or without one that for other brokers."""
        return self.controller_listeners or (self.listener_of_brokers,)

    @property
    def has_broker_listener(self) -> bool:
        """Whether other brokers have a listener to themselves, `inter_broker_listener`."""
        return len(self.listeners) > 1

    @property
    def has_other_nodes(self) -> bool:
        """Whether nodes in other processes belong to the cluster, or may join it."""
        return bool(self.quorum or self.controller_listeners)

    @property
    def has_sasl(self) -> bool:
        """Whether the clients of a listener log in."""
        return any(listener.protocol.has_sasl for listener in (*self.listeners, *self.controller_listeners))


class Serving(msgspec.Struct, frozen=True):
    """The facts of a broker that has started to serve, passed once to the callback of `broker.serve`.

    `host` and `port` are the address of the first listener. `listeners` has the address of each listener by name, and
    `controller_listeners` those of the controller.
    """

    host: str
    port: int
    cluster_id: str
    node_id: int
    observer: Any
    """The source of the broker's metrics: `pykbroker.broker.BrokerObserver`."""
    listeners: Mapping[str, Address] = msgspec.field(default_factory=dict)
    controller_listeners: Mapping[str, Address] = msgspec.field(default_factory=dict)
    new_users: frozenset[str] = frozenset()
    """The users of the settings that did not exist before."""


Ready = Callable[[Serving], None]
