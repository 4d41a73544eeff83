"""The frame reader of a connection: bytes in, frames out. It knows no handler, no budget and no clock.

A frame is a size field of 4 bytes and as many bytes as it says. Between two turns the reader keeps either the start of
a small frame in `rest`, with whole frames that had no turn yet, or one large frame in its own buffer. The reader of an
idle connection keeps neither.
"""

from __future__ import annotations

from struct import Struct

from pykbroker.server.frame_pool import FramePool
from pykbroker.server.large_frame import LARGE_FRAME_BYTES, LargeFrame
from pykbroker.server.strangers import NotKafka, other_protocol
from wire.errors import DecodeError

SIZE_BYTES = 4
FRAME_BYTES_MIN = 10

unpack_size = Struct(">i").unpack_from


class FrameReader:
    """The incomplete frame of one connection. `bytes_max` bounds a frame without its size field."""

    __slots__ = ("_bytes_max", "_pool", "large", "rest", "room")

    def __init__(self, bytes_max: int, pool: FramePool) -> None:
        self._bytes_max, self._pool = bytes_max, pool
        self.rest = b""
        self.large: LargeFrame | None = None
        self.room: memoryview | None = None
        """The place for the next bytes of the large frame; None without a large frame, or if its buffer is full."""

    @property
    def kept_bytes(self) -> int:
        """Return the memory that incomplete frames take."""
        return len(self.rest) if self.large is None else len(self.large.buffer)

    @property
    def incomplete_bytes(self) -> int:
        """Return the bytes of incomplete frames that have come."""
        return len(self.rest) if self.large is None else self.large.have

    @property
    def wants_buffer(self) -> bool:
        """Whether one incomplete frame has enough bytes in `rest` to get a buffer of its own."""
        if len(self.rest) <= LARGE_FRAME_BYTES:
            return False
        size: int = unpack_size(self.rest)[0]
        return len(self.rest) - SIZE_BYTES < size <= self._bytes_max

    def take(self, data: bytes = b"") -> bytes:
        """Return the bytes in `rest` followed by `data`, and empty `rest`."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        return data

    def end_of(self, data: bytes, pos: int) -> int:
        """Return the end of the frame whose size field is at `pos`, or 0 if the frame is incomplete.

        DecodeError: the size is not allowed. NotKafka: the bytes are of another protocol.
        """
        have = len(data)
        if have - pos < SIZE_BYTES:
            return 0
        (size,) = unpack_size(data, pos)
        if not FRAME_BYTES_MIN <= size <= self._bytes_max:
            if other := other_protocol(data[pos : pos + SIZE_BYTES]):
                raise NotKafka(other)
            raise DecodeError(f"a request of {size} bytes, allowed are {FRAME_BYTES_MIN} to {self._bytes_max}")
        end: int = pos + SIZE_BYTES + size
        return end if end <= have else 0

    def begin_large(self, trust: int) -> None:
        """Move the frame in `rest` to a buffer of its own, which has room for `trust` times its bytes."""
        (size,) = unpack_size(self.rest)
        self.large = LargeFrame(size, self.rest[SIZE_BYTES:], self._pool, trust)
        self.rest = b""
        self.open_room()

    def open_room(self) -> None:
        """Offer the free part of the large frame's buffer as `room`."""
        assert self.large is not None
        self.room = self.large.room()

    def close_room(self) -> None:
        """Release `room`, also for others that still have the view: a buffer with a view on it cannot grow."""
        if self.room is not None:
            self.room.release()
            self.room = None

    def filled(self, size: int) -> LargeFrame:
        """Count `size` bytes that were written into `room`, and return the large frame."""
        assert self.large is not None
        self.close_room()
        self.large.have += size
        return self.large

    def clear(self) -> None:
        """Drop everything that is kept."""
        self.close_room()
        self.rest, self.large = b"", None
