"""A trio stream over a virtual connection, for tests of the simulated network."""

from __future__ import annotations

import trio

from pykbroker.sim.endpoint import SimEndpoint
from pykbroker.sim.network import Network
from pykbroker.sim.process import Process

RECEIVE_BYTES = 65_536


class SimStream(trio.abc.Stream):
    """A trio stream over a virtual connection. Several tasks may send and receive at the same time."""

    def __init__(self, endpoint: SimEndpoint) -> None:
        self._endpoint = endpoint
        self._waiting = trio.lowlevel.ParkingLot()
        self._closed = False
        endpoint.notice = self._notice

    def _notice(self) -> None:
        self._waiting.unpark_all()

    async def established(self) -> None:
        """Wait until the connection is established; raise OSError if no listener accepts it."""
        while not self._endpoint.established:
            self._endpoint.check()
            await self._waiting.park()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes; raise BrokenResourceError if the connection is broken."""
        rest = memoryview(data)
        await trio.lowlevel.checkpoint()
        while rest:
            try:
                rest = rest[self._endpoint.send(rest) :]
            except BlockingIOError:
                await self._waiting.park()
            except OSError as error:
                raise self._lost() from error

    async def wait_send_all_might_not_block(self) -> None:
        while not self._endpoint.writable:
            await self._waiting.park()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive some bytes; raise BrokenResourceError if the connection is broken."""
        await trio.lowlevel.checkpoint()
        while True:
            try:
                return self._endpoint.recv(max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                await self._waiting.park()
            except OSError as error:
                raise self._lost() from error

    async def aclose(self) -> None:
        self._closed = True
        self._endpoint.close()
        self._waiting.unpark_all()
        await trio.lowlevel.checkpoint()

    def _lost(self) -> Exception:
        return trio.ClosedResourceError("closed here") if self._closed else trio.BrokenResourceError("broken")


async def connect(network: Network, process: Process, host: str, remote_host: str, port: int) -> SimStream:
    """Connect from `host`; raise OSError if no listener accepts, and wait for ever without an answer."""
    endpoint = network.begin_connect(process, host, (remote_host, port))
    stream = SimStream(endpoint)
    try:
        await stream.established()
    except BaseException:
        endpoint.close()
        raise
    return stream
