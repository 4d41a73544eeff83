"""The address that clients connect to: bound at the begin of a start, listened on at its end."""

from __future__ import annotations

import errno

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import StartError
from pykbroker.core.settings import Settings
from pykbroker.world.net import Bound, Net, SocketOptions


def bind(net: Net, settings: Settings) -> Bound:
    """Bind the address of the settings. StartError: the address is in use or cannot be bound."""
    host, port = settings.listen_host, settings.listen_port
    try:
        return net.bind(host, port, socket_options(settings.config))
    except OSError as error:
        raise refused_address(host, port, error) from None


def listen(bound: Bound) -> None:
    """Accept connections from now on. StartError: another broker already listens on the address."""
    try:
        bound.listen()
    except OSError as error:
        raise refused_address(bound.host, bound.port, error) from None


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


def socket_options(config: BrokerConfig) -> SocketOptions:
    """Return the kernel's options for the sockets of clients."""
    return SocketOptions(
        config.socket_listen_backlog_size, config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes
    )
