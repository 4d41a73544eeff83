"""Small requests from one epoll loop, the cheapest client in Python, so that the broker is the bottleneck."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tools.bench import frames

RECEIVE_BYTES = 65536


@dataclass(frozen=True)
class Load:
    """The result of a run: the number of responses, the duration, and the sorted latencies, in seconds."""

    requests: int
    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Return the number of requests per second."""
        return self.requests / self.seconds

    def latency_ms(self, quantile: float) -> float:
        return percentile(self.latencies, quantile) * 1000


def percentile(values: Sequence[float], quantile: float) -> float:
    """Return the value at a quantile of sorted values."""
    return values[min(len(values) - 1, int(len(values) * quantile))]


class _Lane:
    """A connection that always sends the same frame and gets responses of one length."""

    __slots__ = ("partial_bytes", "receive", "reply_bytes", "request", "send", "sent", "socket")

    def __init__(self, caller: frames.Caller, request: bytes) -> None:
        self.reply_bytes = 4 + len(caller.call(request))
        self.socket = caller.socket
        self.socket.setblocking(False)
        self.receive: Callable[[int], bytes] = self.socket.recv
        if isinstance(self.socket, ssl.SSLSocket):
            self.receive = partial(receive_records, self.socket)
        self.send: Callable[[bytes], int] = self.socket.send
        self.request = request
        self.partial_bytes = 0
        self.sent: deque[float] = deque()


def receive_records(sock: ssl.SSLSocket, size: int) -> bytes:
    """Return the bytes of all records of TLS that have been received, at most `size` of each."""
    parts: list[bytes] = []
    try:
        while not parts or sock.pending():
            parts.append(sock.recv(size))
    except ssl.SSLWantReadError:  # a record that has no bytes of a response
        pass
    else:
        if not parts[-1]:
            raise ConnectionError("the broker closed the connection")
    return b"".join(parts)


def drive(
    ports: Sequence[int],
    requests: Sequence[bytes],
    *,
    in_flight: int = 1,
    seconds: float = 2,
    connect: Callable[[int], frames.Caller] = frames.Caller,
) -> Load:
    """Open a connection for each of `requests`, to the port at the same index of `ports`; keep `in_flight` copies of
    the request unanswered for the given seconds.
    """
    opened = (_Lane(connect(port), request) for port, request in zip(ports, requests, strict=True))
    lanes = {lane.socket.fileno(): lane for lane in opened}
    poll = select.epoll()
    latencies: list[float] = []
    begun = time.perf_counter()
    for fd, lane in lanes.items():
        poll.register(fd, select.EPOLLIN)
        lane.sent.extend([begun] * in_flight)
        lane.send(lane.request * in_flight)
    end = begun + seconds
    now = begun
    while now < end:
        for fd, _ in poll.poll():
            now = _serve(lanes[fd], latencies)
    elapsed = now - begun
    poll.close()
    for lane in lanes.values():
        lane.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        lane.socket.close()
    return Load(len(latencies), elapsed, sorted(latencies))


def _serve(lane: _Lane, latencies: list[float]) -> float:
    data = lane.receive(RECEIVE_BYTES)
    if not data and not isinstance(lane.socket, ssl.SSLSocket):
        raise ConnectionError("the broker closed the connection")
    now = time.perf_counter()
    answered, lane.partial_bytes = divmod(lane.partial_bytes + len(data), lane.reply_bytes)
    sent = lane.sent
    for _ in range(answered):
        latencies.append(now - sent.popleft())
    if answered:
        lane.send(lane.request * answered)
        sent.extend([now] * answered)
    return now
