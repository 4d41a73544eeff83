"""Bound TCP sockets of a real machine, and the addresses of their peers.

As in the JVM, a socket on all interfaces serves IPv4 and IPv6, and an IPv4 peer keeps its IPv4 address.
"""

from __future__ import annotations

import errno
import os
import socket
import sys

ALL_INTERFACES = ("0.0.0.0", "::", "")
MAPPED = "::ffff:"
"""The prefix with which the kernel names an IPv4 peer of a socket for both families."""
REUSES_ADDRESS = sys.platform not in ("win32", "cygwin")
"""Whether SO_REUSEADDR is safe: on Windows it would let a second socket take the address from the first."""

REFUSES_OVERLAPS = sys.platform == "linux"
"""Whether the kernel refuses an address that another socket holds on all interfaces, and the other way around.

macOS and the BSDs give clients of the one address to the one socket, and all others to the other.
"""
PROBE_S_MAX = 0.2


def bound_socket(host: str, port: int) -> socket.socket:
    """Bind a TCP socket that does not listen yet. Raise OSError if it cannot be bound.

    On Linux two sockets with SO_REUSEADDR may share an address until one of them listens. The socket is therefore first
    bound without that option. The option is set only if the address is in use, perhaps by connections of an earlier
    broker.
    """
    if port and not REFUSES_OVERLAPS and is_served(host, port):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    try:
        return _bound(host, port, reuse=False)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not REUSES_ADDRESS:
            raise
    return _bound(host, port, reuse=True)


def listen(sock: socket.socket, backlog: int) -> None:
    """Listen on a bound socket, so that the next broker can bind its address while closed connections linger."""
    if REUSES_ADDRESS:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.listen(backlog)


def is_served(host: str, port: int) -> bool:
    """Whether a socket of another process accepts connections to an address. All interfaces are probed on the loopback.

    The caller has not bound the address: macOS would find a bound socket that does not listen instead of the other one.
    """
    for each in ("127.0.0.1", "::1") if host in ALL_INTERFACES else (host,):
        try:
            socket.create_connection((each, port), PROBE_S_MAX).close()
        except OSError:
            continue
        return True
    return False


def plain(host: str) -> str:
    """Return the address of a peer, or of this end, in the family that the peer uses."""
    return host.removeprefix(MAPPED) if "." in host else host


def _bound(host: str, port: int, *, reuse: bool) -> socket.socket:
    both = host in ALL_INTERFACES and socket.has_dualstack_ipv6()
    if host in ALL_INTERFACES:
        host = "::" if both else "0.0.0.0"
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if reuse:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
