"""Connections to a listener with TLS, SASL or both, without an event loop or as steps of one.

As in `frames`, requests are built by ``struct`` alone. A client does not verify the certificate, and computes the
salted password of SCRAM once, so that the broker is the bottleneck.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from tools.bench import frames

USER, PASSWORD, WRONG_PASSWORD = "alice", "secret-of-alice", "secret-of-bob"
RECEIVE_BYTES = 65536
RATE_UNLIMITED = 1e9
BURST_MAX = 50
"""The number of connections that are late and still opened. The backlog of Kafka has as many."""
WANTS_MORE = (BlockingIOError, ssl.SSLWantReadError)
Steps = Generator[int, None, None]
"""The steps of a connection. Each yields the event of its socket that it waits for."""


@dataclass(frozen=True)
class Security:
    """The way in which a client reaches a listener: with TLS or without, and by a mechanism of SASL or none."""

    tls: bool = False
    mechanism: str | None = None
    password: str = PASSWORD


@functools.cache
def client_context() -> ssl.SSLContext:
    """Return a context of TLS 1.3 that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def handshake(mechanism: str) -> bytes:
    """Return a SaslHandshake request (version 1)."""
    return frames.frame(17, 1, frames.string(mechanism))


def authenticate(token: bytes) -> bytes:
    """Return a SaslAuthenticate request (version 1)."""
    return frames.frame(36, 1, struct.pack(">i", len(token)) + token)


def token_of(reply: bytes) -> bytes:
    """Return the token in a response to SaslAuthenticate. Raise PermissionError if it has an error code."""
    error, message_bytes = struct.unpack_from(">hh", reply, 4)
    if error:
        raise PermissionError(f"the broker refuses the log-in with error {error}")
    pos = 8 + max(0, message_bytes)
    (size,) = struct.unpack_from(">i", reply, pos)
    return reply[pos + 4 : pos + 4 + size]


@functools.cache
def salted(password: str, salt: bytes, iterations: int) -> bytes:
    """Return the key of a password (RFC 5802, SHA-256)."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def login(mechanism: str, password: str) -> Generator[bytes, bytes, None]:
    """Yield the requests of a log-in, and take their responses. Raise PermissionError if the broker refuses it."""
    yield handshake(mechanism)
    if mechanism == "PLAIN":
        token_of((yield authenticate(f"\0{USER}\0{password}".encode())))
        return
    nonce = base64.b64encode(os.urandom(18)).decode()
    first = f"n={USER},r={nonce}"
    server_first = token_of((yield authenticate(f"n,,{first}".encode()))).decode()
    fields = dict(each.split("=", 1) for each in server_first.split(","))
    key = salted(password, base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(key, b"Client Key", "sha256")
    final = f"c=biws,r={fields['r']}"
    signed = f"{first},{server_first},{final}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    token_of((yield authenticate(f"{final},p={base64.b64encode(proof).decode()}".encode())))


class SecuredCaller(frames.Caller):
    """A blocking connection that has logged in."""

    def __init__(self, port: int, security: Security) -> None:
        super().__init__(port)
        if security.tls:
            self.socket = client_context().wrap_socket(self.socket)
        if security.mechanism is not None:
            requests = login(security.mechanism, security.password)
            request = next(requests)
            while True:
                try:
                    request = requests.send(self.call(request))
                except StopIteration:
                    return


def visit(port: int, security: Security, request: bytes) -> Steps:
    """Connect, log in, send one request, and close after its response. The first step yields the descriptor."""
    sock = socket.socket()
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex(("127.0.0.1", port))
        yield sock.fileno()
        yield select.EPOLLOUT
        if security.tls:
            sock = client_context().wrap_socket(sock, do_handshake_on_connect=False)
            yield from shake(sock)
        if security.mechanism is not None:
            requests = login(security.mechanism, security.password)
            each = next(requests)
            while True:
                reply = yield from exchange(sock, each)
                try:
                    each = requests.send(reply)
                except StopIteration:
                    break
        yield from exchange(sock, request)
    finally:
        sock.close()


def shake(sock: ssl.SSLSocket) -> Steps:
    """Do the handshake of TLS."""
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            yield select.EPOLLIN
        else:
            return


def exchange(sock: socket.socket, request: bytes) -> Generator[int, None, bytes]:
    """Send a request, and return its response."""
    sock.send(request)
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        try:
            more = sock.recv(RECEIVE_BYTES)
        except WANTS_MORE:
            yield select.EPOLLIN
            continue
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data[4:]


@dataclass(frozen=True)
class Visits:
    """The result of a run: how many connections were served or refused, and the seconds that it took."""

    served: int
    refused: int
    seconds: float


def visits(
    port: int, security: Security, request: bytes, *, seconds: float, open_max: int, rate: float = RATE_UNLIMITED
) -> Visits:
    """Open up to `rate` connections a second, of which at most `open_max` are open at a time, for the given seconds.

    A connection that is refused counts as such, and any other error of one is raised.
    """
    poll, running = select.epoll(), dict[int, Steps]()
    counts = {True: 0, False: 0}
    begun = now = time.perf_counter()
    opened = 0.0
    while now - begun < seconds:
        allowed = (now - begun) * rate
        opened = max(opened, allowed - BURST_MAX)
        while len(running) < open_max and opened < allowed:
            opened += 1
            steps = visit(port, security, request)
            fd = next(steps)
            poll.register(fd, next(steps))
            running[fd] = steps
        for fd, _ in poll.poll(0.001 if len(running) < open_max else 1):
            try:
                poll.modify(fd, next(running[fd]))
            except (StopIteration, PermissionError) as end:
                counts[isinstance(end, StopIteration)] += 1
                del running[fd]
        now = time.perf_counter()
    poll.close()
    for steps in running.values():
        steps.close()
    return Visits(counts[True], counts[False], now - begun)


def paced(caller: frames.Caller, request: bytes, *, rate: float, seconds: float) -> Sequence[float]:
    """Send a request `rate` times a second, and return the sorted latencies in seconds.

    A latency begins when the request was due, so that each one that had to wait counts.
    """
    begun, latencies = time.perf_counter(), list[float]()
    for number in range(int(seconds * rate)):
        due = begun + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        caller.call(request)
        latencies.append(time.perf_counter() - due)
    return sorted(latencies)
