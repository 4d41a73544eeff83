"""Zig-zag varints: the integers inside records. Small numbers of either sign take one byte.

Each byte has 7 bits, the least significant bits first, and its top bit is set unless it is the last byte. A varint has
at most 5 bytes and 32 bits, a varlong 10 bytes and 64 bits. Readers raise IndexError if the number is incomplete. Their
callers convert it into DecodeError once per batch.
"""

from wire.errors import DecodeError
from wire.varint import uvarint


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Return the int32 at `pos` and its end."""
    byte = data[pos]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), pos + 1
    second = data[pos + 1]
    if second < 0x80:
        byte = byte & 0x7F | second << 7
        return byte >> 1 ^ -(byte & 1), pos + 2
    return _read(data, pos, 32)


def read_varlong(data: bytes, pos: int) -> tuple[int, int]:
    """Return the int64 at `pos` and its end."""
    byte = data[pos]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), pos + 1
    return _read(data, pos, 64)


def varint(value: int) -> bytes:
    """Return the encoding of an int64. An int32 has the same encoding."""
    if -1 <= value < _SMALL_MAX:
        return _SMALL[value]
    return uvarint(value << 1 ^ value >> 63)


def _read(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while shift < bits:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if shift >= bits or value >> bits:
        raise DecodeError(f"varint of more than {bits} bits")
    return value >> 1 ^ -(value & 1), pos


_SMALL_MAX = 1024
_SMALL = [uvarint(value << 1) for value in range(_SMALL_MAX)] + [uvarint(1)]  # ends with -1, the length of null
