"""The proxies between nodes: what one node sends to another is held while that is cut, and arrives afterwards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.interop.proxies import HOST, Proxies
from wire.frame import encode_request
from wire.messages.api_versions import ApiVersionsRequest

HELD_S, ARRIVES_S = 0.1, 10


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    running = Proxies()
    yield running
    running.close()


@pytest.fixture
def echo_port() -> Iterator[int]:
    """Yield the port of a server that sends back what it receives."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)


def is_held(connection: socket.socket) -> bool:
    """Whether nothing arrives on a connection for a while."""
    connection.settimeout(HELD_S)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(ARRIVES_S)
    return False


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def request_of(client_id: str) -> bytes:
    return encode_request(ApiVersionsRequest(), 0, 1, client_id)


@pytest.mark.parametrize("cut", [(2, 1), (1, 2)])
def test_what_is_sent_in_a_cut_direction_is_held_until_the_network_heals(
    proxies: Proxies, echo_port: int, cut: tuple[int, int]
) -> None:
    port, first = proxies.open(1, echo_port), request_of("broker-2")
    with socket.create_connection((HOST, port), ARRIVES_S) as connection:
        connection.sendall(first)
        assert received(connection, len(first)) == first
        proxies.cut(*cut)
        connection.sendall(b"cut")
        assert is_held(connection)
        proxies.heal()
        assert received(connection, 3) == b"cut"


def test_only_a_node_that_is_isolated_is_cut_off(proxies: Proxies, echo_port: int) -> None:
    ports = {number: proxies.open(number, echo_port) for number in (1, 2, 3)}
    proxies.isolate(2)
    for source, target, held in ((3, 1, False), (1, 3, False), (1, 2, True), (2, 3, True)):
        with socket.create_connection((HOST, ports[target]), ARRIVES_S) as connection:
            connection.sendall(request_of(f"broker-{source}"))
            assert is_held(connection) == held


@pytest.mark.parametrize(
    ("client_id", "held"),
    [
        ("broker-12-fetcher", True),
        ("pykbroker-observer-12", True),
        ("broker-1", False),
        ("other-12", False),
        ("", False),
    ],
)
def test_a_node_is_known_by_the_client_id_of_its_first_request(
    proxies: Proxies, echo_port: int, client_id: str, held: bool
) -> None:
    port, request = proxies.open(1, echo_port), request_of(client_id)
    proxies.cut(12, 1)
    with socket.create_connection((HOST, port), ARRIVES_S) as connection:
        connection.sendall(request[:13])
        connection.sendall(request[13:])
        assert is_held(connection) == held
        proxies.heal()
        assert received(connection, len(request)) == request


def test_the_end_of_a_connection_is_held_too(proxies: Proxies, echo_port: int) -> None:
    port, first = proxies.open(1, echo_port), request_of("broker-2")
    with socket.create_connection((HOST, port), ARRIVES_S) as connection:
        proxies.cut(2, 1)
        connection.sendall(first)
        connection.shutdown(socket.SHUT_WR)
        assert is_held(connection)
        proxies.heal()
        assert received(connection, len(first)) == first
        assert connection.recv(1) == b""
