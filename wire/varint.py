"""Unsigned varints: lengths and tags in flexible versions. Each byte has 7 bits, the least significant bits first."""

from wire.declare import Buffer
from wire.errors import DecodeError

VARINT_BYTES_MAX = 5


def uvarint(n: int) -> bytes:
    """Return the encoding of `n`, which must not be negative."""
    return UVARINTS[n] if n < SMALL_MAX else _encode(n)


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the varint at `pos` and the position after it. Raise IndexError if the buffer ends inside the varint."""
    n = buf[pos]
    if n < 128:
        return n, pos + 1
    n = 0
    for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
        byte = buf[pos]
        pos += 1
        n |= (byte & 127) << shift
        if byte < 128:
            return n, pos
    raise DecodeError("a varint of more than 5 bytes")


def _encode(n: int) -> bytes:
    if 127 < n < 1 << 14:
        return bytes((n & 127 | 128, n >> 7))
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


SMALL_MAX = 1024
UVARINTS = [_encode(n) for n in range(SMALL_MAX)]
"""The encodings of small numbers, by number."""
