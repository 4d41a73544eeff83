"""A connection that a scripted node has accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Peer, Pump
from wire.api import ApiKey
from wire.declare import Request, Response
from wire.frame import LENGTH_BYTES, decode_request, encode_response
from wire.header import RequestHeader


class Dropped(Exception):
    """An instruction of a script to close the connection instead of answering."""


class NoAnswer(Exception):
    """An instruction of a script to leave a request without an answer, and to answer later requests."""


class ScriptedConnection:
    """A connection whose requests a task handles one after the other. It matches `world.net.ConnectionMachine`."""

    wants_input = True
    wants_turn = False
    room: memoryview | None = None

    def __init__(self, peer: Peer, pump: Pump) -> None:
        self.peer, self._pump = peer, pump
        self.out: list[Buffer | FileSlice] = []
        self.ended = self.is_closed = False
        self._received = b""
        self._requests: deque[bytes] = deque()
        self._changed = trio.Event()

    # ---- calls of the pump

    def received(self, data: bytes) -> None:
        """Queue the complete requests. Without data, no request follows, and the connection ends."""
        self.ended |= not data
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES], "big")
            if len(self._received) < end:
                break
            self._requests.append(self._received[LENGTH_BYTES:end])
            self._received = self._received[end:]
        self._changed.set()

    def filled(self, size: int) -> None:
        """Do nothing, since `room` is always None."""

    def resume(self) -> None:
        """Do nothing, since received bytes are always handled at once."""

    def unsent(self, size: int, kept_bytes: int) -> None:
        """Do nothing, since a scripted node never waits for its client to read."""

    def closed(self) -> None:
        """Drop the waiting requests."""
        self.is_closed = True
        self._requests.clear()
        self._changed.set()

    # ---- calls of the node

    def close(self) -> None:
        self.ended = True
        self._pump.close()

    async def serve(self, answer: Callable[[RequestHeader, Request[Any]], Awaitable[Response | None]]) -> None:
        """Answer requests until the connection is closed. The answer None stands for no response."""
        while not self.is_closed:
            if not self._requests:
                self._changed = trio.Event()
                await self._changed.wait()
                continue
            header, request = decode_request(self._requests.popleft())
            try:
                response = await answer(header, request)
            except NoAnswer:
                continue
            except Dropped:
                self.close()
                return
            if response is not None and not self.is_closed:
                refused = header.key == ApiKey.API_VERSIONS and getattr(response, "error_code", 0) != 0
                self.out.append(encode_response(response, 0 if refused else header.version, header.correlation_id))
                self._pump.flush()
