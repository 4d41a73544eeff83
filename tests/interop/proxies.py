"""Proxies before the listeners for nodes, so that a test can cut the network between them without namespaces."""

from __future__ import annotations

import contextlib
import re

import trio

from pykbroker.world.background import BackgroundLoop

HOST = "127.0.0.1"
CHUNK_BYTES_MAX = 65536
CLIENT_ID_AT, LENGTH_BYTES = 12, 2
"""The position of the length of the client id in a request, behind its size, API key, version and correlation id."""
CLIENT_ID = re.compile(rb"(?:broker|pykbroker-observer)-(\d+)")
"""The client ids of brokers that connect to each other or to the controller."""


class Proxies:
    """Proxies between nodes, which hold what one node sends to another while that is cut, as TCP does for lost packets.

    A proxy knows the node that connects by the client id of its first request.
    """

    def __init__(self) -> None:
        self._cuts: set[tuple[int, int]] = set()
        self._numbers: set[int] = set()
        self._healed = trio.Event()
        self._loop = BackgroundLoop("proxies", self._run)
        self._loop.start()

    async def _run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    # ---- calls of the test

    def open(self, target: int, port: int) -> int:
        """Return the port of a new proxy to a port of node `target`."""
        self._numbers.add(target)
        return self._loop.call(self._open, target, port)

    def cut(self, source: int, target: int) -> None:
        """Hold all that one node sends to another. The other direction stays as it is."""
        self._cuts.add((source, target))

    def isolate(self, number: int) -> None:
        """Cut a node off from all others, both ways."""
        for other in self._numbers - {number}:
            self.cut(number, other)
            self.cut(other, number)

    def heal(self) -> None:
        """Undo all cuts. What was held arrives now."""
        self._cuts.clear()
        self._loop.call_soon(self._let_pass)

    def close(self) -> None:
        """Close all connections and proxies."""
        self._loop.stop()

    # ---- in the thread of the proxies

    def _let_pass(self) -> None:
        self._healed.set()
        self._healed = trio.Event()

    async def _open(self, target: int, port: int) -> int:
        (listener,) = await trio.open_tcp_listeners(0, host=HOST)

        async def serve(client: trio.SocketStream) -> None:
            with contextlib.suppress(OSError, trio.BrokenResourceError):
                await self._serve(client, target, port)

        self._nursery.start_soon(trio.serve_listeners, serve, [listener])
        found: int = listener.socket.getsockname()[1]
        return found

    async def _serve(self, client: trio.SocketStream, target: int, port: int) -> None:
        """Forward one connection until both sides have ended it, or one has reset it."""
        first = await first_bytes(client)
        named = CLIENT_ID.match(first[CLIENT_ID_AT + LENGTH_BYTES :])
        number = int(named[1]) if named else None
        await self._pass(number, target)
        server = await trio.open_tcp_stream(HOST, port)
        async with client, server, trio.open_nursery() as nursery:

            async def forward(
                source: trio.SocketStream, to: trio.SocketStream, sender: int | None, receiver: int | None, data: bytes
            ) -> None:
                try:
                    while True:
                        await self._pass(sender, receiver)
                        await to.send_all(data)
                        data = await source.receive_some(CHUNK_BYTES_MAX)
                        if not data:
                            break
                    await self._pass(sender, receiver)
                    await to.send_eof()
                except trio.BrokenResourceError:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(forward, client, server, number, target, first)
            nursery.start_soon(forward, server, client, target, number, b"")

    async def _pass(self, sender: int | None, receiver: int | None) -> None:
        """Wait until nothing cuts the sender off from the receiver."""
        while (sender, receiver) in self._cuts:
            await self._healed.wait()


async def first_bytes(client: trio.SocketStream) -> bytes:
    """Return the beginning of a connection, up to the end of the client id or more."""
    data = b""
    while len(data) < (end := CLIENT_ID_AT + LENGTH_BYTES) or len(data) < end + client_id_bytes(data):
        more = await client.receive_some(CHUNK_BYTES_MAX)
        if not more:
            break
        data += more
    return data


def client_id_bytes(data: bytes) -> int:
    """Return the length of the client id of the first request, 0 if it is null."""
    length = int.from_bytes(data[CLIENT_ID_AT : CLIENT_ID_AT + LENGTH_BYTES], "big", signed=True)
    return max(0, length)
