"""One client connection without I/O: bytes in, handler calls, replies out in request order.

While nothing is ahead, a reply is encoded straight into `out`; behind one that waits it takes a slot in line.
Sources: the request and response headers of KIP-482; ordering as in Kafka's SocketServer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from struct import Struct
from typing import Any, Protocol

from pykbroker.server.failure import failure
from pykbroker.server.frame_pool import FramePool
from pykbroker.server.handler import CloseConnection, Context, Held, Waiting
from pykbroker.server.table import Route, Table
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Peer, Pump
from wire.api import ApiKey
from wire.compile_decoder import skip_tags
from wire.declare import REQUEST_ELEMENTS_MAX, Response
from wire.errors import DecodeError

SIZE, HEADER = Struct(">i"), Struct(">Iih")
FRAME_BYTES_MIN = 10
LARGE_FRAME_BYTES = 32768
"""A longer frame gets a buffer of its own."""
LARGE_BUFFER_BYTES_FIRST = 1 << 16
LARGE_BUFFER_BYTES_SECOND = 1 << 20
"""The first buffers of a frame that claims more; from then on it doubles as bytes come. A claim costs the first one."""
SLOTS_MAX = 128
"""Requests of one connection that wait for their answers; further ones stay unread."""
OUT_PARTS_MAX = 512
"""Buffers of replies not yet sent, above which no further request is handled."""

logger = logging.getLogger(__name__)


class Tasks(Protocol):
    """Where a coroutine that a handler returned is run (a nursery)."""

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """As trio's."""


class Slot:
    """A reply in line: its request's route and correlation id, and the response once `done`."""

    __slots__ = ("context", "correlation_id", "done", "request", "response", "route")

    def __init__(self, route: Route, correlation_id: int, context: Context, request: Any) -> None:
        self.route, self.correlation_id, self.context, self.request = route, correlation_id, context, request
        self.response: Response | None = None
        self.done = False


class Connection:
    """Matches `world.net.Connection`. `request_bytes_max` bounds a frame without its size field."""

    __slots__ = (
        "_client_id", "_client_raw", "_have", "_held", "_large", "_pool", "_pump", "_rest", "_size", "_slots",
        "_table", "_tasks", "_ticks", "ended", "on_closed", "out", "peer", "request_bytes_max", "room",
    )  # fmt: skip

    def __init__(self, peer: Peer, pump: Pump, table: Table, tasks: Tasks, pool: FramePool,
                 ticks: Callable[[], int], request_bytes_max: int, on_closed: Callable[[Connection], None]) -> None:
        self.peer, self._pump, self._table, self._tasks = peer, pump, table, tasks
        self._pool, self._ticks, self.request_bytes_max, self.on_closed = pool, ticks, request_bytes_max, on_closed
        self.out: list[Buffer | FileSlice] = []
        self.ended = self._held = False
        self.room: memoryview | None = None
        self._large: bytearray | None = None
        self._have = self._size = 0
        self._rest = b""
        self._slots: deque[Slot] = deque()
        self._client_raw: bytes = b""
        self._client_id: str | None = ""

    # ---- bytes in

    @property
    def wants_input(self) -> bool:
        """False while a request is held, too many wait, or too much is owed to the peer."""
        return not self._held and len(self._slots) < SLOTS_MAX and len(self.out) < OUT_PARTS_MAX

    def received(self, data: bytes) -> None:
        """Handle the frames in `data`; what is left of it waits for more."""
        self._guarded(self._frames, self._rest + data if self._rest else data)

    def filled(self, size: int) -> None:
        """`size` bytes have come into `room`."""
        self._have += size
        if self._have == self._size:
            self._guarded(self._large_frame)
        else:
            self._make_room()

    def resume(self) -> bool:
        """Handle frames that were left because of `wants_input`. True: something was handled."""
        if len(self._rest) < 4 or self.ended or not self.wants_input:
            return False
        rest, self._rest = self._rest, b""
        self._guarded(self._frames, rest)
        return len(self._rest) < len(rest)

    def closed(self) -> None:
        """The peer is gone: hurry what waits for its sake; replies have nowhere to go."""
        self.ended = True
        for slot in self._slots:
            if slot.context.hurry is not None:
                slot.context.hurry()
        self._rest, self.room, self._large = b"", None, None
        self.out.clear()
        self.on_closed(self)

    def _guarded(self, step: Callable[..., None], *args: Any) -> None:
        """What the peer did wrong ends its connection, with one line; so does a bug of ours, with a traceback."""
        try:
            step(*args)
        except (DecodeError, CloseConnection) as error:
            logger.warning("closing the connection of %s: %s", self.peer, error)
            self.ended = True
        except Exception:
            logger.exception("closing the connection of %s: it met a bug", self.peer)
            self.ended = True

    def _frames(self, data: bytes) -> None:
        pos, have = 0, len(data)
        while have - pos >= 4 and self.wants_input:
            (size,) = SIZE.unpack_from(data, pos)
            end = pos + 4 + size
            if end > have or size < FRAME_BYTES_MIN:
                self._check_size(size)
                if size > LARGE_FRAME_BYTES:
                    self._begin_large(size, data[pos + 4 :])
                    return
                break
            if size > self.request_bytes_max:
                self._check_size(size)
            self._request(data, pos + 4, end)
            pos = end
        self._rest = data[pos:] if pos else data

    def _check_size(self, size: int) -> None:
        if not FRAME_BYTES_MIN <= size <= self.request_bytes_max:
            raise DecodeError(f"a request of {size} bytes, allowed are {FRAME_BYTES_MIN} to {self.request_bytes_max}")

    def _begin_large(self, size: int, start: bytes) -> None:
        self._rest = b""
        self._large = self._pool.take(min(size, LARGE_BUFFER_BYTES_FIRST))
        self._large[: len(start)] = start
        self._size, self._have = size, len(start)
        self._make_room()

    def _make_room(self) -> None:
        """Where the next bytes go; a buffer that is full gives way to a larger one, so memory follows what came."""
        assert self._large is not None
        if self._have == len(self._large):
            self.room = None
            larger = self._pool.take(min(self._size, max(2 * self._have, LARGE_BUFFER_BYTES_SECOND)))
            larger[: self._have] = self._large
            self._pool.give(self._large)
            self._large = larger
        self.room = memoryview(self._large)[self._have : self._size]

    def _large_frame(self) -> None:
        buffer, self._large, self.room = self._large, None, None
        assert buffer is not None
        self._request(buffer, 0, self._size)
        if not self._held:
            self._pool.give(buffer)

    # ---- a request

    def _request(self, data: Buffer, pos: int, end: int) -> None:
        started = self._ticks()
        key_version, correlation_id, length = HEADER.unpack_from(data, pos)
        route = self._table[key_version]
        pos += 10
        if length >= 0:
            self._identify(data, pos, length, end)
            pos += length
        elif length < -1:
            raise DecodeError(f"a client id of {length} bytes")
        else:
            self._client_raw, self._client_id = b"", None
        if route.tagged_header:
            pos = self._after_tags(data, pos, end)
        request = route.decode(data, pos, end)
        if self._slots and route.key != ApiKey.FETCH:
            self._hurry()
        context = Context(route.version, self._client_id, self.peer)
        self._answer(route, correlation_id, context, request)
        route.took(self._ticks() - started)

    def _identify(self, data: Buffer, pos: int, length: int, end: int) -> None:
        if pos + length > end:
            raise DecodeError("the client id does not fit its frame")
        raw = bytes(data[pos : pos + length])
        if raw != self._client_raw or self._client_id is None:
            try:
                self._client_raw, self._client_id = raw, raw.decode()
            except UnicodeDecodeError:
                raise DecodeError("the client id is not UTF-8") from None

    def _after_tags(self, data: Buffer, pos: int, end: int) -> int:
        try:
            if pos < end:
                return skip_tags(data, pos, end, REQUEST_ELEMENTS_MAX)[0] if data[pos] else pos + 1
            raise IndexError
        except IndexError:
            raise DecodeError("the request header does not fit its frame") from None

    def _hurry(self) -> None:
        """Another kind of request waits behind a parked Fetch: let that answer with what there is."""
        for slot in self._slots:
            if slot.context.hurry is not None:
                slot.context.hurry()

    def _answer(self, route: Route, correlation_id: int, context: Context, request: Any) -> None:
        try:
            answer = route.handler(context, request)
        except (CloseConnection, DecodeError):
            raise
        except Exception as error:  # noqa: BLE001 - what a handler lets out is answered, and logged there
            answer = failure(route, request, error)
        if answer is None:
            return
        if isinstance(answer, Response):
            if not self._slots:
                route.frame(correlation_id, answer, self.out)
                return
            slot = Slot(route, correlation_id, context, request)
            slot.response, slot.done = answer, True
            self._slots.append(slot)
            return
        slot = Slot(route, correlation_id, context, request)
        self._slots.append(slot)
        if isinstance(answer, Held):
            self._held = True
        self._tasks.start_soon(self._finish, slot, answer)

    # ---- replies

    async def _finish(self, slot: Slot, answer: Waiting | Held) -> None:
        """Run a handler's coroutine, then let go all replies that are ready, in order."""
        outcome: Response | Exception | None
        try:
            outcome = await (self._hold(answer) if isinstance(answer, Held) else answer)
        except Exception as error:  # noqa: BLE001 - as in _answer
            outcome = error
        self._guarded(self._conclude, slot, outcome)
        if self.ended:
            self._pump.close()
        else:
            self._pump.flush()

    async def _hold(self, held: Held) -> Response | None:
        """Keep later requests back only as long as the order of the appends asks for it."""
        try:
            answer = await held.coroutine
        finally:
            self._held = False
        if answer is None or isinstance(answer, Response):
            return answer
        self._pump.flush()
        return await answer

    def _conclude(self, slot: Slot, outcome: Response | Exception | None) -> None:
        if isinstance(outcome, CloseConnection):
            raise outcome
        slot.response = failure(slot.route, slot.request, outcome) if isinstance(outcome, Exception) else outcome
        slot.done = True
        self._drain()

    def _drain(self) -> None:
        slots = self._slots
        while slots and slots[0].done:
            slot = slots.popleft()
            if slot.response is not None:
                slot.route.frame(slot.correlation_id, slot.response, self.out)
