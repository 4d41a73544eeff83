"""The frame reader of a connection: it splits received bytes into frames.

A frame is a size field of 4 bytes, followed by as many bytes as the field says. The reader keeps either the received
bytes of small frames in `rest`, or one large frame in a separate buffer. The reader of an idle connection keeps no
bytes.
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
    """A frame reader. `bytes_max` is the maximum size of a frame without its size field."""

    __slots__ = ("_pool", "bytes_max", "large", "rest", "room")

    def __init__(self, bytes_max: int, pool: FramePool) -> None:
        self.bytes_max, self._pool = bytes_max, pool
        self.rest = b""
        self.large: LargeFrame | None = None
        self.room: memoryview | None = None
        """A view of the place for the next bytes of the large frame.

        None without a large frame, or if its buffer is full.
        """

    @property
    def kept_bytes(self) -> int:
        """Return the memory that incomplete frames take."""
        return len(self.rest) if self.large is None else len(self.large.buffer)

    @property
    def incomplete_bytes(self) -> int:
        """Return the number of received bytes of incomplete frames."""
        return len(self.rest) if self.large is None else self.large.have

    @property
    def wants_buffer(self) -> bool:
        """Whether the incomplete frame in `rest` is long enough to get a separate buffer."""
        if len(self.rest) <= LARGE_FRAME_BYTES:
            return False
        size: int = unpack_size(self.rest)[0]
        return len(self.rest) - SIZE_BYTES < size <= self.bytes_max

    def take(self, data: bytes = b"") -> bytes:
        """Return the bytes in `rest` followed by `data`, and empty `rest`."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        return data

    def end_of(self, data: bytes, pos: int) -> int:
        """Return the end of the frame whose size field is at `pos`, or 0 if the frame is incomplete.

        Raise DecodeError if the size is not allowed. Raise NotKafka if the bytes are of another protocol.
        """
        have = len(data)
        if have - pos < SIZE_BYTES:
            return 0
        (size,) = unpack_size(data, pos)
        if not FRAME_BYTES_MIN <= size <= self.bytes_max:
            if other := other_protocol(data[pos : pos + SIZE_BYTES]):
                raise NotKafka(other)
            raise DecodeError(f"a request of {size} bytes, allowed are {FRAME_BYTES_MIN} to {self.bytes_max}")
        end: int = pos + SIZE_BYTES + size
        return end if end <= have else 0

    def begin_large(self, trust: int) -> None:
        """Move the frame in `rest` to a separate buffer with room for `trust` times its bytes."""
        (size,) = unpack_size(self.rest)
        self.large = LargeFrame(size, self.rest[SIZE_BYTES:], self._pool, trust)
        self.rest = b""
        self.open_room()

    def open_room(self) -> None:
        """Set `room` to the free part of the large frame's buffer."""
        assert self.large is not None
        self.room = self.large.room()

    def close_room(self) -> None:
        """Release the view `room`, since a buffer with a view on it cannot grow."""
        if self.room is not None:
            self.room.release()
            self.room = None

    def filled(self, size: int) -> LargeFrame:
        """Note that `size` bytes were written into `room`, and return the large frame."""
        assert self.large is not None
        self.close_room()
        self.large.have += size
        return self.large

    def clear(self) -> None:
        """Drop all kept bytes."""
        self.close_room()
        self.rest, self.large = b"", None
