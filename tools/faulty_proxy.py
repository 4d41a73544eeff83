"""A TCP proxy that delays data, holds answers back, and cuts connections. It never changes the order of bytes."""

from __future__ import annotations

import socket
import struct
from random import Random
from typing import ClassVar

import trio

CHUNK_BYTES_MAX = 65536
LAST_S = 0.1, 0.4, 1.5
"""The times that a fault may last. The longest exceeds the clients' request timeout."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with a time of zero, with which `close` sends a RST segment."""


class FaultyProxy:
    """A proxy on 127.0.0.1 between clients and one listener of a broker."""

    KINDS: ClassVar = ("cut", "delay", "hold", "hold_and_cut", "refuse")

    def __init__(self, port: int, broker_port: int, dice: Random) -> None:
        self.port, self._broker_port, self._dice = port, broker_port, dice
        self.happened, self.at_work = 0, trio.Event()
        """The number of faults so far, and an event that the second one sets."""
        self._delay_s_max = 0.0
        self._accepts = True
        self._answers = trio.Event()
        self._answers.set()
        self._connections: set[trio.CancelScope] = set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Forward all connections until the task is cancelled."""
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
            await nursery.start(trio.serve_listeners, self._serve, listeners)
            task_status.started()

    async def inject_faults(self, seconds: float) -> None:
        """Inject faults, at least two, until so many seconds have passed at the end of one."""
        until = trio.current_time() + seconds
        try:
            while self.happened < 2 or trio.current_time() < until:
                await trio.sleep(self._dice.uniform(0, 0.3))
                await getattr(self, self._dice.choice(self.KINDS))()
                self.happened += 1
                if self.happened == 2:
                    self.at_work.set()
        finally:
            self._heal()

    # ---- faults

    async def cut(self) -> None:
        """Close all connections. Data that was under way is lost."""
        for connection in list(self._connections):
            connection.cancel()

    async def delay(self) -> None:
        """Delay every chunk of data for some time."""
        self._delay_s_max = self._dice.choice((0.01, 0.3))
        await self._last()

    async def hold(self) -> None:
        """Hold all answers for some time."""
        self._answers = trio.Event()
        await self._last()

    async def hold_and_cut(self) -> None:
        """Hold all answers for some time, and lose them."""
        await self.lose_answers(self._dice.choice(LAST_S))

    async def lose_answers(self, seconds: float) -> None:
        """Hold all answers for this time, and close the connections, so that these answers are lost."""
        self._answers = trio.Event()
        await trio.sleep(seconds)
        self._heal()
        await self.cut()

    async def refuse(self) -> None:
        """Close all connections, and each new one at once for some time."""
        self._accepts = False
        await self.cut()
        await self._last()

    async def _last(self) -> None:
        await trio.sleep(self._dice.choice(LAST_S))
        self._heal()

    def _heal(self) -> None:
        self._delay_s_max, self._accepts = 0.0, True
        self._answers.set()

    # ---- forwarding

    async def _serve(self, client: trio.SocketStream) -> None:
        """Forward one connection until either side ends it or it is cut."""
        if not self._accepts:
            return
        try:
            broker = await trio.open_tcp_stream("127.0.0.1", self._broker_port)
        except OSError:
            return
        if self._dice.random() < 0.5:
            for end in client, broker:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        with trio.CancelScope() as connection:
            self._connections.add(connection)
            async with broker, trio.open_nursery() as nursery:
                nursery.start_soon(self._forward, client, broker, connection)
                nursery.start_soon(self._forward, broker, client, connection)
        self._connections.discard(connection)

    async def _forward(
        self, source: trio.SocketStream, target: trio.SocketStream, connection: trio.CancelScope
    ) -> None:
        is_answer = target.socket.getsockname()[1] == self.port
        try:
            while data := await source.receive_some(CHUNK_BYTES_MAX):
                if self._delay_s_max:
                    await trio.sleep(self._dice.uniform(0, self._delay_s_max))
                if is_answer:
                    await self._answers.wait()
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        connection.cancel()
