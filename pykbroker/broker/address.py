"""The listeners' addresses: bound at the beginning of a start, accepting connections at its end."""

from __future__ import annotations

import errno
from collections.abc import Container, Iterable, Mapping

import msgspec

from pykbroker.broker.secured_listeners import SecuredListeners
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.settings import Settings
from pykbroker.world.net import Accept, Bound, Net, SocketOptions, Tls
from pykbroker.world.world import World


class BoundListeners(msgspec.Struct, frozen=True):
    """The bound addresses of a node by listener, those for clients and those for controllers, and their TLS."""

    clients: Mapping[str, Bound]
    controllers: Mapping[str, Bound]
    secured: SecuredListeners

    def close(self) -> None:
        """Stop accepting on all addresses."""
        close(self.clients)
        close(self.controllers)


def bind(world: World, settings: Settings) -> BoundListeners:
    """Bind the address of each listener. Raise StartError if one is in use, cannot be bound, or has no valid TLS."""
    secured, net = SecuredListeners(settings, world), world.net
    of_nodes = {listener.name for listener in settings.controller_listeners}
    if settings.has_broker_listener:
        of_nodes.add(settings.inter_broker_listener)
    clients = bind_listeners(net, settings.listeners, settings.config, of_nodes)
    try:
        controllers = bind_listeners(net, settings.controller_listeners, settings.config, of_nodes)
        return BoundListeners(clients, controllers, secured)
    except BaseException:
        close(clients)
        raise


def bind_listeners(
    net: Net, listeners: Iterable[ListenerSettings], config: BrokerConfig, of_nodes: Container[str]
) -> dict[str, Bound]:
    """Bind the addresses of these listeners: name -> address. Raise StartError if one is in use or cannot be bound.

    `of_nodes` has the names of the listeners to which only other nodes connect.
    """
    bound: dict[str, Bound] = {}
    for listener in listeners:
        host, port = listener.address
        try:
            bound[listener.name] = net.bind(host, port, socket_options(config, of_nodes=listener.name in of_nodes))
        except OSError as error:
            close(bound)
            raise refused_address(host, port, error) from None
    return bound


def listen(bound: Bound, accept: Accept, tls: Tls | None = None) -> None:
    """Begin to accept connections. Raise StartError if another broker already listens on an address."""
    try:
        bound.listen(accept, tls)
    except OSError as error:
        raise refused_address(bound.host, bound.port, error) from None


def close(bound: Mapping[str, Bound]) -> None:
    """Stop accepting on all addresses."""
    for one in bound.values():
        one.close()


def advertised(listeners: Iterable[ListenerSettings], bound: Mapping[str, Bound]) -> dict[str, Address]:
    """Return the advertised address of each listener that has one. The bound port replaces port 0."""
    return {
        listener.name: Address(listener.advertised.host, listener.advertised.port or bound[listener.name].port)
        for listener in listeners
        if listener.advertised is not None
    }


def all_advertised(settings: Settings, bound: BoundListeners) -> dict[str, Address]:
    """Return the advertised addresses of the listeners for clients and of those for controllers."""
    of_clients = advertised(settings.listeners, bound.clients)
    return of_clients | advertised(settings.controller_listeners, bound.controllers)


def endpoints(listeners: Iterable[ListenerSettings], bound: Mapping[str, Bound]) -> tuple[Endpoint, ...]:
    """Return the endpoint of each listener for other nodes: the advertised address, or else the bound one."""
    listeners = list(listeners)
    shown = {name: Address(one.host, one.port) for name, one in bound.items()} | advertised(listeners, bound)
    return tuple(Endpoint(each.name, *shown[each.name], each.protocol) for each in listeners)


def refused_address(host: str, port: int, error: OSError) -> StartError:
    """Return the StartError for an address that cannot be used."""
    if error.errno == errno.EADDRINUSE:
        return StartError(
            f"port {port} on {host} is in use, perhaps by another broker. Stop it, or choose a port with"
            f" --listen {host}:PORT (0 takes any free one)."
        )
    return StartError(
        f"cannot listen on {host}:{port}: {error.strerror or error}. Choose an address of this machine"
        " with --listen HOST:PORT."
    )


def socket_options(config: BrokerConfig, *, of_nodes: bool) -> SocketOptions:
    """Return the socket options for the connections of a listener.

    An idle client may be away from the network for minutes, and another node may not.
    """
    return SocketOptions(
        config.socket_listen_backlog_size,
        config.socket_send_buffer_bytes,
        config.socket_receive_buffer_bytes,
        ends_silent=of_nodes,
    )
