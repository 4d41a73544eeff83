"""The frame reader of a connection until its client has logged in.

After SaslHandshake version 0, tokens have no request header: 4 bytes of size, and the token, which may be empty. The
reader puts a header before each token, one at a time, since requests with headers follow the last token.
"""

from __future__ import annotations

from struct import Struct

from pykbroker.server.frame_pool import FramePool
from pykbroker.server.frames import SIZE_BYTES, FrameReader, unpack_size
from wire.api import ApiKey
from wire.errors import DecodeError

pack_header = Struct(">ihhih").pack
"""Packs a size, and a request header without a client id."""
HEADER_BYTES = 10


class LoginFrames(FrameReader):
    """A frame reader. While `takes_raw_tokens` is true, a frame is a token."""

    __slots__ = ("_token_ends_at", "takes_raw_tokens")

    def __init__(self, bytes_max: int, pool: FramePool) -> None:
        super().__init__(bytes_max, pool)
        self.takes_raw_tokens = False
        self._token_ends_at = 0

    @property
    def wants_buffer(self) -> bool:
        """Whether the incomplete frame gets a separate buffer. A token gets none."""
        return not self.takes_raw_tokens and super().wants_buffer

    def take(self, data: bytes = b"") -> bytes:
        """Return the kept bytes followed by `data`. A complete token at their beginning gets a request header."""
        data = super().take(data)
        has_header = self._token_ends_at > 0  # the token was put back, since the broker may start no request now
        if self.takes_raw_tokens and not has_header and len(data) >= SIZE_BYTES:
            (size,) = unpack_size(data)
            if 0 <= size <= self.bytes_max and len(data) >= SIZE_BYTES + size:
                self._token_ends_at = SIZE_BYTES + HEADER_BYTES + size
                header = pack_header(HEADER_BYTES + size, ApiKey.SASL_AUTHENTICATE, 0, 0, -1)
                return header + data[SIZE_BYTES:]
        return data

    def end_of(self, data: bytes, pos: int) -> int:
        """Return the end of the frame at `pos`, or 0 if it is incomplete, or is a token that has no header yet."""
        if not self.takes_raw_tokens:
            return super().end_of(data, pos)
        end, self._token_ends_at = self._token_ends_at, 0
        if end or len(data) - pos < SIZE_BYTES:
            return end
        (size,) = unpack_size(data, pos)
        if not 0 <= size <= self.bytes_max:
            raise DecodeError(f"a SASL token of {size} bytes, allowed are 0 to {self.bytes_max}")
        return 0
