"""Tests of bound sockets: on all interfaces they serve both families, and elsewhere that of their address."""

from __future__ import annotations

import errno
import socket

import pytest
import trio

from pykbroker.world import system_bind
from pykbroker.world.net import Peer
from tests.unit.world.local_network import echo, read_exactly, served


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
async def test_all_interfaces_serve_both_families_and_name_each_peer_in_its_own(host: str) -> None:
    async with served(echo, host=host) as network:
        assert network.bound.host == host
        for client in ("127.0.0.1", "::1"):
            async with await trio.open_tcp_stream(client, network.bound.port) as stream:
                await stream.send_all(b"hello\n")
                await read_exactly(stream, 6)
                own_host, own_port = stream.socket.getsockname()[:2]
                assert network.lines[-1].peer == Peer(own_host, own_port, client, network.bound.port)


async def test_all_interfaces_are_those_of_ipv4_where_there_is_no_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    for host in ("0.0.0.0", "::", ""):
        async with served(echo, host=host) as network:
            await (await trio.open_tcp_stream("127.0.0.1", network.bound.port)).aclose()
            with pytest.raises(OSError, match="refused|connect"):
                await trio.open_tcp_stream("::1", network.bound.port)


async def test_an_address_serves_its_own_family_only() -> None:
    for host, other in (("127.0.0.1", "::1"), ("::1", "127.0.0.1")):
        async with served(echo, host=host) as network:
            assert network.bound.host == host
            with pytest.raises(OSError, match="refused|connect"):
                await trio.open_tcp_stream(other, network.bound.port)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("::1", ""), ("127.0.0.1", "127.0.0.1")]
)
def test_an_address_that_another_socket_serves_is_refused_although_the_kernel_would_share_it(
    monkeypatch: pytest.MonkeyPatch, theirs: str, ours: str
) -> None:
    """SO_REUSEPORT lets Linux share the port, as macOS does by itself."""

    def shared(host: str, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        return sock

    monkeypatch.setattr(system_bind, "REFUSES_OVERLAPS", False)
    monkeypatch.setattr(system_bind, "_bound", lambda host, port, *, reuse: shared(host, port))
    with shared(theirs, 0) as other:
        port = other.getsockname()[1]
        with system_bind.bound_socket(ours, port) as free:
            assert free.getsockname()[1] == port, "nobody listens yet"
        other.listen()
        with pytest.raises(OSError, match="in use") as refused:
            system_bind.bound_socket(ours, port)
    assert refused.value.errno == errno.EADDRINUSE
