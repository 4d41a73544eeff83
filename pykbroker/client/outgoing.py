"""An outgoing connection without I/O.

The connection encodes requests into bytes to send, and decodes received bytes into responses. A connection ends when
the broker or the caller closes it, or when received bytes are no valid response. Its pending requests then fail, and
none is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from operator import attrgetter
from struct import Struct
from typing import Any

from pykbroker.client.errors import Disconnected, InvalidResponse
from pykbroker.client.pending_response import PendingResponse, R, do_nothing
from pykbroker.client.response_reader import ResponseFrame, ResponseReader
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Peer, Pump
from wire.declare import Request
from wire.frame import encode_request_parts

CORRELATION_ID_MAX = 0x7FFF_FFFF

unpack_correlation_id = Struct(">i").unpack_from
expires_at_of = attrgetter("expires_at")


class HeldRequests:
    """The requests that wait while the client authenticates again (KIP-368)."""

    __slots__ = ("out", "pending")

    def __init__(self) -> None:
        self.out: list[Buffer | FileSlice] = []
        self.pending: deque[PendingResponse[Any]] = deque()


class OutgoingConnection:
    """A connection to a broker, with any number of requests in flight. It matches `world.net.ConnectionMachine`."""

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_ending",
        "_held",
        "_pending",
        "_pump",
        "_reader",
        "ended",
        "on_closed",
        "on_sent",
        "out",
        "peer",
        "room",
    )

    wants_input = True
    wants_turn = False

    def __init__(self, peer: Peer, pump: Pump, client_id: str, response_bytes_max: int) -> None:
        self.peer, self._pump, self._client_id = peer, pump, client_id
        self._reader = ResponseReader(response_bytes_max)
        self._correlation_id = 0
        self._pending: deque[PendingResponse[Any]] = deque()
        self._held: HeldRequests | None = None
        self._ending: Disconnected | None = None
        self.out: list[Buffer | FileSlice] = []
        self.room: memoryview | None = None
        self.ended = False
        self.on_closed: Callable[[], None] = do_nothing
        """A function that is called once the connection is closed."""
        self.on_sent: Callable[[], None] = do_nothing
        """A function that is called once all bytes are sent, if some were unsent before."""

    @property
    def pending_count(self) -> int:
        """Return the number of requests without a response, including requests that their caller has abandoned."""
        return len(self._pending) + (0 if self._held is None else len(self._held.pending))

    @property
    def expires_at(self) -> float:
        """Return the time of trio's clock at which a response will be late, or inf. Abandoned requests count."""
        earliest = min(map(expires_at_of, self._pending), default=inf)
        return earliest if self._held is None else min(earliest, *map(expires_at_of, self._held.pending), inf)

    @property
    def has_unsent(self) -> bool:
        """Whether the kernel has not taken all requests yet."""
        return bool(self.out) or self._held is not None

    # ---- calls of the owner

    def request(self, request: Request[R], version: int) -> PendingResponse[R]:
        """Append a request to `out` and return its pending response. Raise Disconnected if the connection has ended."""
        correlation_id = self._write(request, version)
        pending = PendingResponse(request, version, correlation_id, self.invalidate)
        (self._pending if self._held is None else self._held.pending).append(pending)
        self._pump.flush()
        return pending

    def request_first(self, request: Request[R], version: int) -> PendingResponse[R]:
        """Send a request before those that `hold` holds back."""
        held, self._held = self._held, None
        try:
            return self.request(request, version)
        finally:
            if self._ending is None:
                self._held = held

    def hold(self) -> None:
        """Hold back all further requests until `release`. Those that are sent keep their responses."""
        self._held = HeldRequests()

    def release(self) -> None:
        """Send the requests that were held back."""
        if (held := self._held) is not None:
            self._held = None
            self.out += held.out
            self._pending += held.pending
            self._pump.flush()
            if not self.out:
                self.on_sent()

    def send(self, request: Request[Any], version: int) -> None:
        """Send a request that the broker does not answer: Produce with acks=0. Raise Disconnected as `request` does."""
        self._write(request, version)
        self._pump.flush()

    def close(self, error: Disconnected | None = None) -> None:
        """Close the connection at once, and fail its pending requests with `error`. A second call does nothing."""
        self._end(error or Disconnected(f"the connection to {self.peer} was closed by this client"))
        self._pump.close()

    def fail(self, error: Disconnected) -> None:
        """End the connection because of an error that its pump has met. The pump closes it."""
        self._end(error)

    def invalidate(self, reason: str) -> InvalidResponse:
        """Close the connection because of a response that does not decode, and return the error."""
        error = InvalidResponse(f"{self.peer}: {reason}")
        self._end(error)
        self._pump.close()
        return error

    # ---- calls of the pump

    def received(self, data: bytes) -> None:
        """Pass the responses in `data` to their requests, and keep an incomplete response.

        Without data, no response follows, and the connection ends.
        """
        self.ended |= not data
        try:
            for frame in self._reader.frames(data):
                self._respond(frame)
        except InvalidResponse as error:
            self._end(error)
        self.room = self._reader.room

    def filled(self, size: int) -> None:
        """Note that `size` bytes have been received into `room`."""
        self.ended |= not size
        frame = self._reader.filled(size)
        self.room = self._reader.room
        try:
            if frame is not None:
                self._respond(frame)
        except InvalidResponse as error:
            self._end(error)

    def resume(self) -> None:
        """Do nothing, since received bytes are always handled at once."""

    def unsent(self, size: int, kept_bytes: int) -> None:
        """Note that `size` bytes of `out` are unsent, because the socket takes no more."""
        if not size:
            self.on_sent()

    def closed(self) -> None:
        """Fail the pending requests, and drop all unsent and incomplete data."""
        self._end(Disconnected(f"{self.peer} closed the connection"))
        self._reader.clear()
        self.room = None
        self.out.clear()
        self.on_sent()
        self.on_closed()

    # ---- internals

    def _write(self, request: Request[Any], version: int) -> int:
        if self._ending is not None:
            raise self._ending.with_traceback(None)
        correlation_id = self._correlation_id
        out = self.out if self._held is None else self._held.out
        out += encode_request_parts(request, version, correlation_id, self._client_id)
        self._correlation_id = (correlation_id + 1) & CORRELATION_ID_MAX
        return correlation_id

    def _respond(self, frame: ResponseFrame) -> None:
        (correlation_id,) = unpack_correlation_id(frame.buffer, frame.start)
        expected = self._pending[0].correlation_id if self._pending else None
        if correlation_id != expected:
            raise InvalidResponse(
                f"{self.peer} answered request {correlation_id}, "
                + ("but no request is pending" if expected is None else f"but request {expected} is the oldest pending")
            )
        self._pending.popleft().arrive(frame)

    def _end(self, error: Disconnected) -> None:
        """Fail all pending requests with `error`, unless the connection has already ended."""
        self.ended = True
        if self._ending is None:
            self._ending = error
            held, self._held = self._held, None
            if held is not None:
                self._pending += held.pending
            while self._pending:
                self._pending.popleft().fail(error)
