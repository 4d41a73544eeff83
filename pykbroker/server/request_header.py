"""The decoding of the rare parts of a request header: a new client id, and tagged fields (KIP-482)."""

from __future__ import annotations

from pykbroker.world.disk import Buffer
from wire.compile_decoder import skip_tags
from wire.declare import REQUEST_ELEMENTS_MAX, STRING_BYTES_MAX
from wire.errors import DecodeError


def decode_client_id(raw: Buffer | None, length: int, *, fits: bool) -> tuple[bytes | None, str | None]:
    """Return the client id as bytes and as text.

    A connection usually calls this once, since its client id rarely changes.
    """
    if raw is None:
        if length < -1:
            raise DecodeError(f"a client id of {length} bytes")
        return None, None
    if not fits:
        raise DecodeError("the client id extends beyond its frame")
    data = bytes(raw)
    name = data.decode(errors="replace")  # as Java does; some clients send Latin-1
    if len(name.encode()) > STRING_BYTES_MAX:
        raise DecodeError("the client id is longer than a string may be")
    return data, name


def skip_header_tags(data: Buffer, pos: int, end: int) -> int:
    """Return the position after the tagged fields of a request header, where the body begins."""
    try:
        if pos < end:
            return skip_tags(data, pos, end, REQUEST_ELEMENTS_MAX)[0]
    except IndexError:
        pass
    raise DecodeError("the request header extends beyond its frame")
