"""The first message of a client in TLS, as far as it decides how long the exchange of keys takes (RFC 8446, 4.1.2).

OpenSSL 3.0 to 3.4 exchanges keys in the finite field of 8,192 bits (RFC 7919) with every client of TLS 1.3 that sends
a key for it. That takes the broker 60 ms, and a stranger nothing: any number is a key. Java, Go and OpenSSL send keys
for elliptic curves.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error

HANDSHAKE, CLIENT_HELLO = 22, 1
RECORD_HEADER_BYTES, MESSAGE_HEADER_BYTES = 5, 4
VERSION_AND_RANDOM_BYTES = 34
START_BYTES_MAX = 4096
"""The number of bytes of a message that are waited for. That of a client with a post-quantum key has 1,800."""
SUPPORTED_VERSIONS, KEY_SHARE = 43, 51
TLS13 = b"\x03\x04"
CURVES = frozenset({0x17, 0x18, 0x19, 0x1D, 0x1E})
"""The groups P-256, P-384, P-521, X25519 and X448."""
FINITE_FIELDS = range(0x100, 0x200)
HEAD_BYTES = 4

unpack_head = Struct(">HH").unpack_from
"""Unpacks a number and a size."""


def is_cut_off(start: bytes) -> bool:
    """Whether the rest of the first message, which begins with these bytes, has to be waited for."""
    if start[0] != HANDSHAKE:
        return False
    if len(start) < RECORD_HEADER_BYTES:
        return True
    return len(start) < min(RECORD_HEADER_BYTES + int.from_bytes(start[3:5], "big"), START_BYTES_MAX)


def has_quick_keys(start: bytes) -> bool:
    """Whether the exchange of keys will be quick: the client has sent keys for curves only, or has no TLS 1.3.

    It is false for a message that is not whole, or has no key, so that the client may send another one later.
    """
    try:
        found = dict(extensions(start))
        if TLS13 not in found.get(SUPPORTED_VERSIONS, b""):
            return True
        groups = {group for group, _ in fields(found.get(KEY_SHARE, b"\0\0")[2:])}
    except (IndexError, error):
        return False
    return not groups.isdisjoint(CURVES) and not any(group in FINITE_FIELDS for group in groups)


def extensions(start: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the content of each extension. Raise as `fields` does if the message is not whole."""
    message = sized(start, 3, 2)
    if start[0] != HANDSHAKE or message[0] != CLIENT_HELLO:
        raise IndexError("this is no first message")
    body = sized(message, 1, 3)
    pos = VERSION_AND_RANDOM_BYTES
    for size_bytes in (1, 2, 1):  # the session, the cipher suites and the methods of compression
        pos += size_bytes + len(sized(body, pos, size_bytes))
    return fields(sized(body, pos, 2)) if pos < len(body) else iter(())


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield numbers of 2 bytes, each with the content behind a size of 2 bytes. Raise IndexError or `struct.error`."""
    pos, end = 0, len(data)
    while pos < end:
        number, size = unpack_head(data, pos)
        pos += HEAD_BYTES + size
        if pos > end:
            raise IndexError("an extension is cut off")
        yield number, data[pos - size : pos]


def sized(data: bytes, pos: int, size_bytes: int) -> bytes:
    """Return the content behind a size at `pos`. Raise IndexError if it is cut off."""
    start = pos + size_bytes
    end = start + int.from_bytes(data[pos:start], "big")
    if max(start, end) > len(data):
        raise IndexError("the message is cut off")
    return data[start:end]
