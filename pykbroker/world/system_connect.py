"""Outgoing connections of a real machine, opened to the first address of a host that accepts (RFC 8305)."""

from __future__ import annotations

import socket
from typing import Any

import trio

SYN_S_MAX = 2.0
"""The time after which an address gets another SYN, on a new socket. Earlier ones still wait for a slow peer.

The kernel repeats a lost SYN at intervals that double, and would find a network that has healed only seconds later.
"""
NEXT_ADDRESS_S = 0.25
"""The time after which the next address of a host is tried as well, as in RFC 8305."""
Target = tuple[int, int, int, Any]
"""The family, type and protocol of a socket, and the address that it connects to."""


async def connected_socket(host: str, port: int) -> socket.socket:
    """Connect to a host, and return the non-blocking socket. Raise OSError if the host is unknown or refuses."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failures: list[OSError] = []
    won: list[trio.socket.SocketType] = []

    @trio.lowlevel.enable_ki_protection
    async def attempt(target: Target, of_address: trio.Nursery) -> None:
        try:
            won.append(await _connected(target))
            nursery.cancel_scope.cancel()
        except OSError as failure:
            failures.append(failure)
            of_address.cancel_scope.cancel()

    @trio.lowlevel.enable_ki_protection
    async def attempts(target: Target, ended: trio.Event) -> None:
        """Send SYNs to an address until it accepts or refuses one."""
        async with trio.open_nursery() as of_address:
            while True:
                of_address.start_soon(attempt, target, of_address)
                await trio.sleep(SYN_S_MAX)
        ended.set()

    try:
        async with trio.open_nursery() as nursery:
            for family, kind, protocol, _, address in found:
                ended = trio.Event()
                nursery.start_soon(attempts, (family, kind, protocol, address), ended)
                with trio.move_on_after(NEXT_ADDRESS_S):
                    await ended.wait()
    except BaseException:
        for sock in won:
            sock.close()
        raise
    if not won:
        message = f"all attempts to connect to {host}:{port} failed"
        raise OSError(message) from ExceptionGroup(message, failures)
    for sock in won[1:]:
        sock.close()
    return socket.socket(fileno=won[0].detach())


async def _connected(target: Target) -> trio.socket.SocketType:
    """Connect to one address. Raise OSError if it refuses."""
    family, kind, protocol, address = target
    sock = trio.socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock
