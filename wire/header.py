"""The headers of requests and responses, encoded by hand because every request needs them.

A request header has API key i16, version i16, correlation id i32 and client id (i16 length, -1 for null, in header
version 2 too). In header version 2 a tag section follows. A response header has the correlation id and, in header
version 1, a tag section. Tagged fields are ignored.
"""

import struct
from typing import NamedTuple

from wire.apis import request_header_version, response_header_version
from wire.compile_decoder import skip_tags
from wire.declare import REQUEST_ELEMENTS_MAX, STRING_BYTES_MAX, Buffer
from wire.errors import DecodeError, EncodeError

FIXED = struct.Struct(">hhih")
CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buf: Buffer, pos: int, end: int) -> tuple[RequestHeader, int]:
    """Return the header at `pos` and the position of the body.

    Raise DecodeError if the header is malformed, or has an unknown API.
    """
    try:
        key, version, correlation_id, size = FIXED.unpack_from(buf, pos)
        pos += FIXED.size
        client_id = None
        if size >= 0:
            client_id = str(buf[pos : pos + size], "utf-8", "replace")  # as Java does: some clients send Latin-1
            pos += size
            if len(client_id.encode()) > STRING_BYTES_MAX:
                raise DecodeError("the client id is longer than a string may be")
        if request_header_version(key, version) == 2:
            pos, _ = skip_tags(buf, pos, end, REQUEST_ELEMENTS_MAX)
    except KeyError:
        raise DecodeError(f"no API has the key {key}") from None
    except (IndexError, struct.error) as error:
        raise DecodeError(f"request header: {error}") from None
    if pos > end:
        raise DecodeError("request header: longer than its frame")
    return RequestHeader(key, version, correlation_id, client_id), pos


def encode_request_header(header: RequestHeader) -> bytes:
    """Return the encoded header, in the header version for its API key and version."""
    key, version, correlation_id, client_id = header
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if request_header_version(key, version) == 2 else b""
    try:
        return FIXED.pack(key, version, correlation_id, -1 if client_id is None else len(name)) + name + tags
    except struct.error as error:
        raise EncodeError(f"request header: {error}") from None


def decode_response_header(buf: Buffer, pos: int, end: int, key: int, version: int) -> tuple[int, int]:
    """Return the correlation id and the position of the body."""
    try:
        correlation_id: int = CORRELATION_ID.unpack_from(buf, pos)[0]
        pos += CORRELATION_ID.size
        if response_header_version(key, version) == 1:
            pos, _ = skip_tags(buf, pos, end, REQUEST_ELEMENTS_MAX)
    except (IndexError, struct.error) as error:
        raise DecodeError(f"response header: {error}") from None
    if pos > end:
        raise DecodeError("response header: longer than its frame")
    return correlation_id, pos


def encode_response_header(key: int, version: int, correlation_id: int) -> bytes:
    """Return the encoded header: 4 bytes, or 5 bytes in header version 1."""
    return CORRELATION_ID.pack(correlation_id) + b"\0" * response_header_version(key, version)
