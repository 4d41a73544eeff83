"""The network of a simulated process: the broker's pumps on simulated sockets, and a simulated poller."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any, Protocol, cast
from zlib import crc32

import trio

from pykbroker.sim.disk import SimFile
from pykbroker.sim.endpoint import SimEndpoint, broken
from pykbroker.sim.network import Network
from pykbroker.sim.process import Process
from pykbroker.world import system_connect
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Accept, C, NetStatistics, Peer, Pump, SocketOptions, Tls
from pykbroker.world.system_pump import Homes, SocketPump


class Watchable(Protocol):
    """A simulated socket: an endpoint or a backlog."""

    number: int
    notice: Callable[[], None]

    @property
    def readable(self) -> bool:
        """Whether received bytes or connecting peers wait."""

    @property
    def writable(self) -> bool:
        """Whether bytes can be sent."""

    @property
    def failed(self) -> bool:
        """Whether the socket is broken."""


class SimPoll:
    """The poller of one process, which reports ready sockets in random order. It matches `world.system_poll.Poll`."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._sockets: dict[int, Watchable] = {}
        self._watched: dict[int, tuple[bool, bool]] = {}
        self._noticed: dict[int, None] = {}
        self._changed = trio.Event()

    def fileno(self) -> int:
        """Raise OSError, since this poller has no descriptor. `wait` waits for ready sockets instead."""
        raise broken(errno.EBADF)

    def add(self, socket: Watchable) -> None:
        """Add a socket, so that it can be watched."""
        number = socket.number
        self._sockets[number] = socket
        socket.notice = lambda: self._notice(number)

    def _notice(self, number: int) -> None:
        self._noticed[number] = None
        self._changed.set()

    def watch(self, fd: int, reads: bool, writes: bool) -> None:
        """Watch a descriptor, level-triggered as epoll does."""
        self._watched[fd] = (reads, writes)
        self._notice(fd)

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor."""
        self._watched.pop(fd, None)
        self._sockets.pop(fd, None)

    def close(self) -> None:
        """Do nothing, since the poller holds no resource."""

    def ready(self) -> list[tuple[int, int]]:
        """Return (number, 0) for each ready socket."""
        numbers = [number for number in self._noticed if self._is_ready(number)]
        self._noticed = dict.fromkeys(numbers)
        self._dice.shuffle(numbers)
        return [(number, 0) for number in numbers]

    async def wait(self) -> None:
        """Wait until a socket is ready."""
        while not any(map(self._is_ready, self._noticed)):
            self._noticed.clear()
            self._changed = trio.Event()
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def _is_ready(self, number: int) -> bool:
        socket = self._sockets.get(number)
        if socket is None:
            return False
        reads, writes = self._watched.get(number, (False, False))
        return socket.failed or (reads and socket.readable) or (writes and socket.writable)


class SimPump(SocketPump):
    """The pump of the broker, with a simulated sendfile."""

    __slots__ = ()

    def _send_file(self, out: list[Buffer | FileSlice]) -> bool:
        part = out[0]
        assert isinstance(part, FileSlice)
        data = cast("SimFile", part.file).sent(part.offset, part.size)
        if not data:
            raise broken(errno.EIO)
        sent = self._send_bytes(data)
        if sent == part.size:
            del out[0]
        else:
            out[0] = FileSlice(part.file, part.offset + sent, part.size - sent)
        return sent > 0


class SimListener:
    """A bound address. It matches `world.net.Bound`."""

    def __init__(
        self, net: SimNet, network: Network, process: Process, address: tuple[str, int], options: SocketOptions
    ) -> None:
        self._net, self._network = net, network
        self.backlog = network.bind(process, address)
        self.backlog.ends_silent = options.ends_silent
        self.host, self.port = self.backlog.address
        self._accept: Accept | None = None

    def listen(self, accept: Accept, tls: Tls | None = None) -> None:
        """Start to listen. Connections wait in the backlog until they are passed to `accept`. There is no TLS."""
        self._accept = accept
        self.backlog.listens = True
        self._net.watch(self)

    def turn(self) -> None:
        """Accept all waiting peers."""
        accept = self._accept
        assert accept is not None
        while self.backlog.waiting:
            endpoint = self.backlog.waiting.popleft()
            pump = self._net.pump(endpoint)
            host, port = endpoint.remote
            connection = accept(Peer(ip_of(host), port, *endpoint.local), pump)
            if connection is None:
                endpoint.close()
            else:
                pump.start(connection)

    def close(self) -> None:
        """Stop listening, and refuse the connections in the backlog."""
        self._net.poll.forget(self.backlog.number)
        self._network.unlisten(self.backlog)


def ip_of(host: str) -> str:
    """Return the IPv4 address of a host, as a broker sees it and sends it to the controller in an Envelope."""
    return ".".join(map(str, (10, *crc32(host.encode()).to_bytes(4)[:3])))


class SimNet:
    """The network of a process on one host. It matches `world.net.Net`."""

    def __init__(self, network: Network, process: Process, host: str, dice: Random) -> None:
        self._network, self._process, self._host = network, process, host
        self.poll = SimPoll(dice)
        self._pumps: dict[int, SocketPump] = {}
        self._listeners: dict[int, SimListener] = {}

    def bind(self, host: str, port: int, options: SocketOptions = SocketOptions()) -> SimListener:  # noqa: B008
        """Bind an address. Raise OSError if it is already in use."""
        return SimListener(self, self._network, self._process, (host, port), options)

    def watch(self, listener: SimListener) -> None:
        """Start to accept the peers of a listener."""
        self._listeners[listener.backlog.number] = listener
        self.poll.add(listener.backlog)
        self.poll.watch(listener.backlog.number, True, False)

    def pump(self, endpoint: SimEndpoint) -> SocketPump:
        self.poll.add(endpoint)

        def watch_silence(_pump: SocketPump) -> None:
            endpoint.ends_silent = True

        return SimPump(cast("Any", endpoint), self.poll, Homes(self._pumps, self._pumps), watch_silence)

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[[Peer, Pump], C],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
    ) -> C:
        """Connect from this host, without TLS. Raise OSError if no process listens there.

        Wait for ever if the peer does not respond.
        """
        endpoint = None
        while endpoint is None:
            with trio.move_on_after(system_connect.SYN_S_MAX):
                endpoint = await self._connected((host, port))
        pump = self.pump(endpoint)
        connection = open_connection(Peer(*endpoint.remote, *endpoint.local), pump)
        pump.start(connection)
        return connection

    async def _connected(self, remote: tuple[str, int]) -> SimEndpoint:
        """Return a connected endpoint. Wait for ever if the peer does not respond."""
        endpoint = self._network.begin_connect(self._process, self._host, remote)
        endpoint.ends_silent = True
        changed = trio.Event()
        endpoint.notice = lambda: changed.set()
        try:
            while not endpoint.established:
                endpoint.check()
                await changed.wait()
                changed = trio.Event()
        except BaseException:
            endpoint.close()
            raise
        return endpoint

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Raise OSError, since simulated hosts have no addresses besides their names."""
        raise broken(errno.EADDRNOTAVAIL)

    def statistics(self) -> NetStatistics:
        """Return zeros, since virtual time does not pass while tasks run."""
        return NetStatistics(0, 0, 0, 0, 0)

    async def run(self) -> None:
        """Serve until cancelled, then close all connections."""
        try:
            while True:
                await self.poll.wait()
                for number, _ in self.poll.ready():
                    if number in self._pumps:
                        self._pumps[number].turn()
                    elif number in self._listeners:
                        self._listeners[number].turn()
        finally:
            for listener in self._listeners.values():
                listener.close()
            for pump in list(self._pumps.values()):
                pump.close()
