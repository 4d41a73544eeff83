"""Test doubles for connections: one without a socket whose calls are counted, and handlers made of functions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pykbroker.core.security.session import Session
from pykbroker.server.budget import Budget
from pykbroker.server.connection import Connection
from pykbroker.server.handler import NO_RESPONSE, Answer, Handler, RequestContext, now_or_later
from pykbroker.server.shared import Shared
from pykbroker.server.strangers import Strangers
from pykbroker.server.table import ApiTable
from pykbroker.world.turns import Turns
from wire.api import ApiKey
from wire.frame import encode_request
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

SESSION = Session("10.0.0.7", 50000, "10.0.0.1", 9092, "PLAINTEXT", 0)
REQUEST_BYTES_MAX = 200_000


class Api(Handler):
    """A handler made of a function. It may return a coroutine or steps, or None for no response."""

    def __init__(self, key: ApiKey, versions: str, call: Callable[[RequestContext, Any], Any]) -> None:
        self.key, self.versions, self._call = key, versions, call  # type: ignore[misc]

    def __call__(self, context: RequestContext, request: Any) -> Answer:
        result = self._call(context, request)
        return NO_RESPONSE if result is None else now_or_later(result)


class NoTasks:
    def start_soon(self, function: Callable[..., Any], *args: Any) -> None:
        raise AssertionError("nothing was to wait")


class Ticks:
    """A clock that advances by `step` at each reading."""

    def __init__(self, step: int = 1000) -> None:
        self.now, self.step = 0, step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def shared(
    tasks: Any,
    *handlers: Any,
    ticks: Callable[[], int] | None = None,
    bytes_max: int = 1 << 30,
    requests_max: int = 500,
    request_bytes_max: int = REQUEST_BYTES_MAX,
) -> Shared:
    turns = Turns(ticks or Ticks())
    return Shared(
        ApiTable(handlers),
        tasks,
        turns,
        Strangers(turns.ticks),
        Budget(bytes_max, requests_max),
        request_bytes_max,
        lambda connection: None,
    )


class Rig:
    """A connection without a socket, and the pump that would move its bytes."""

    def __init__(
        self, tasks: Any, *handlers: Any, of: Shared | None = None, session: Session = SESSION, **options: Any
    ) -> None:
        self.flushes = self.closes = self.watches = 0
        self.is_last = False
        self.shared = of or shared(tasks, *handlers, **options)
        self.table, self.budget = self.shared.table, self.shared.budget
        self.connection = Connection(session, self, self.shared)

    def flush(self) -> None:
        self.flushes += 1

    def end_when_silent(self) -> None:
        self.watches += 1

    def serve_last(self, *, last: bool) -> None:
        self.is_last = last

    def close(self) -> None:
        self.closes += 1
        if self.closes == 1:
            self.connection.closed()

    def feed(self, data: bytes) -> int:
        """Pass `data` to the connection while it wants input, as the network does; return the number of bytes that it
        took.
        """
        given, connection = 0, self.connection
        while given < len(data) and not connection.ended:
            if connection.wants_turn:
                connection.resume()
            elif not connection.wants_input:
                break
            elif connection.room is None:
                connection.received(data[given : given + 65536])
                given += 65536
            else:
                room = connection.room
                size = min(len(room), len(data) - given)
                room[:size] = data[given : given + size]
                connection.filled(size)
                given += size
        while connection.wants_turn and not connection.ended:
            connection.resume()
        return min(given, len(data))

    def replies(self) -> list[bytes]:
        """Return the frames in `out` without their size fields."""
        data = b"".join(self.connection.out)  # type: ignore[arg-type]
        frames = []
        while data:
            size = struct.unpack_from(">i", data)[0]
            frames.append(data[4 : 4 + size])
            data = data[4 + size :]
        return frames


def echo(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Return a Heartbeat response whose throttle time is the generation of the request."""
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


ECHO: Any = Api(ApiKey.HEARTBEAT, "0-4", echo)


def heartbeat(number: int, version: int = 4, group: str = "g") -> bytes:
    return encode_request(HeartbeatRequest(group_id=group, generation_id=number), version, number, "me")


def padded(number: int, size: int, group: str = "g") -> bytes:
    """Return a Heartbeat request of about `size` bytes; most of it is an unknown tagged field that is skipped."""
    frame = heartbeat(number, group=group)
    padding = bytes(max(0, size - len(frame)))
    body = frame[4:-1] + b"\x01\x63" + uvarint(len(padding)) + padding
    return struct.pack(">i", len(body)) + body


def uvarint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


def correlation_ids(frames: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", frame)[0] for frame in frames]
