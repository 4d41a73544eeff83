"""The reader of responses, which splits received bytes into frames.

A frame is a size field of 4 bytes, followed by as many bytes as the field says. A frame that is received whole is
decoded without a copy. A large frame gets a buffer of its size, into which the bytes are received. A response is
therefore contiguous, and its record bytes can be memoryviews.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from pykbroker.client.errors import InvalidResponse
from wire.declare import Buffer

SIZE_BYTES = 4
CORRELATION_ID_BYTES = 4
BUFFERED_BYTES = 32_768
"""The number of received bytes above which a frame gets a separate buffer."""

OTHER_PROTOCOLS = {
    b"HTTP": "an HTTP server answers there: name the listener of a Kafka broker",
    b"\x15\x03": "a TLS listener answers there: set security.protocol to SSL or SASL_SSL, or name another one",
}
"""The peers of other protocols, and what to do, by the first bytes of a message. A TLS alert begins with 21 and 3."""

unpack_size = Struct(">i").unpack_from


class ResponseFrame(NamedTuple):
    """A response without its size field: the bytes from `start` to `end` of a buffer that no longer changes."""

    buffer: Buffer
    start: int
    end: int


class ResponseReader:
    """A response reader of one connection. `bytes_max` is the maximum size of a response without its size field."""

    __slots__ = ("_buffer", "_bytes_max", "_have", "_rest", "room")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = b""
        self._buffer = bytearray()
        self._have = 0
        """The number of received bytes in `_buffer`."""
        self.room: memoryview | None = None
        """A view of the place for the next bytes of a large response, or None without one."""

    def frames(self, data: bytes) -> Iterator[ResponseFrame]:
        """Yield the complete responses, and keep an incomplete response.

        Raise InvalidResponse if a size is not allowed.
        """
        if self._rest:
            data, self._rest = self._rest + data, b""
        pos, have = 0, len(data)
        while have - pos >= SIZE_BYTES:
            size = self._size(data, pos)
            start = pos + SIZE_BYTES
            if start + size > have:
                if have - pos > BUFFERED_BYTES:
                    self._begin(size, memoryview(data)[start:])
                    return
                break
            pos = start + size
            yield ResponseFrame(data, start, pos)
        self._rest = data[pos:]

    def filled(self, size: int) -> ResponseFrame | None:
        """Note that `size` bytes were written into `room`, and return the response if it is complete."""
        self._have += size
        if self._have < len(self._buffer):
            self.room = memoryview(self._buffer)[self._have :]
            return None
        frame = ResponseFrame(self._buffer, 0, self._have)
        self.clear()
        return frame

    def clear(self) -> None:
        """Drop the incomplete response."""
        self._rest, self._buffer, self.room = b"", bytearray(), None

    def _size(self, data: bytes, pos: int) -> int:
        size: int = unpack_size(data, pos)[0]
        if not CORRELATION_ID_BYTES <= size <= self._bytes_max:
            if other := OTHER_PROTOCOLS.get(data[pos : pos + 4], OTHER_PROTOCOLS.get(data[pos : pos + 2])):
                raise InvalidResponse(other)
            raise InvalidResponse(
                f"the broker sent a response of {size} bytes, allowed are {CORRELATION_ID_BYTES} to {self._bytes_max}"
            )
        return size

    def _begin(self, size: int, received: memoryview) -> None:
        self._buffer, self._have = bytearray(size), len(received)
        self._buffer[: self._have] = received
        self.room = memoryview(self._buffer)[self._have :]
