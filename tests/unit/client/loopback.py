"""A network in memory, for tests of clients against a scripted cluster in one process and with a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from pykbroker.world.net import Accept, NetStatistics, Peer, Pump, SocketOptions, Tls


class LoopbackPump:
    """One end of a connection. It matches `world.net.Pump`, and delivers bytes in a later pass of the event loop."""

    def __init__(self) -> None:
        self.connection: Any = None
        self.other: LoopbackPump | None = None
        self._token = trio.lowlevel.current_trio_token()
        self.is_closed = False
        self.holds = False
        """Whether bytes stay unsent, as if the peer did not read."""
        self.is_broken = False
        """Whether the next attempt to send finds that the peer has reset the connection."""

    def end_when_silent(self) -> None:
        pass

    def serve_last(self, *, last: bool) -> None:
        pass

    def flush(self) -> None:
        if self.is_broken:
            self.close()
            return
        self._token.run_sync_soon(self._move, idempotent=True)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.connection.closed()
            self._token.run_sync_soon(self.other.close)

    def release(self) -> None:
        """Send the bytes that were held."""
        self.holds = False
        self._move()
        self.connection.unsent(0, 0)

    def _move(self) -> None:
        if self.is_closed or self.holds:
            return
        data = b"".join(self.connection.out)
        self.connection.out.clear()
        if data:
            self.other.take(data)
        if self.connection.ended:
            self.close()

    def take(self, data: bytes) -> None:
        while data and not self.is_closed:
            room = self.connection.room
            if room is None:
                self.connection.received(data)
                data = b""
            else:
                size = min(len(room), len(data))
                room[:size] = data[:size]
                del room
                self.connection.filled(size)
                data = data[size:]
            if self.connection.ended:
                self.close()
        self.flush()


class LoopbackBound:
    """A bound address. It matches `world.net.Bound`."""

    def __init__(self, net: LoopbackNet, address: tuple[str, int]) -> None:
        self._net, (self.host, self.port) = net, address

    def listen(self, accept: Accept, tls: Tls | None = None) -> None:
        self._net.acceptors[self.host, self.port] = accept

    def close(self) -> None:
        del self._net.acceptors[self.host, self.port]


class LoopbackNet:
    """The network of all hosts. It matches `world.net.Net`.

    A connection attempt to an address in `black_holes` never ends. `attempts` has the time and host of each attempt,
    and `receive_buffers` the size of the receive buffer that it asks for.
    """

    def __init__(self) -> None:
        self.acceptors: dict[tuple[str, int], Accept] = {}
        self.black_holes: set[str] = set()
        self.attempts: list[tuple[float, str]] = []
        self.receive_buffers: list[int] = []
        self.pumps: list[LoopbackPump] = []

    def bind(self, host: str, port: int, _options: SocketOptions | None = None) -> LoopbackBound:
        return LoopbackBound(self, (host, port))

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[[Peer, Pump], Any],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
    ) -> Any:
        self.attempts.append((trio.current_time(), host))
        self.receive_buffers.append(receive_buffer_bytes)
        await trio.lowlevel.checkpoint()
        if host in self.black_holes:
            await trio.sleep_forever()
        if (host, port) not in self.acceptors:
            raise ConnectionRefusedError(f"{host}:{port} refuses connections")
        ours, theirs = LoopbackPump(), LoopbackPump()
        ours.other, theirs.other = theirs, ours
        theirs.connection = self.acceptors[host, port](Peer("client", 1, host, port), theirs)
        ours.connection = open_connection(Peer(host, port, "client", 1), ours)
        self.pumps.append(ours)
        return ours.connection

    async def addresses(self, host: str) -> tuple[str, ...]:
        return (host,)

    async def run(self) -> None:
        await trio.sleep_forever()

    def statistics(self) -> NetStatistics:
        return NetStatistics(0, 0, 0, 0, 0)
