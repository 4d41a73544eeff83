"""The encoding and decoding of whole frames: a size of 4 bytes, a header and a body. Clients and tests use it.

The server encodes into its own buffers instead. Decoders take a frame without its size.
"""

from typing import Any, TypeVar

from wire.apis import APIS
from wire.compile import decoder, encoder
from wire.declare import Buffer, Request, Response
from wire.errors import DecodeError
from wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

LENGTH_BYTES = 4

R = TypeVar("R", bound=Response)


def encode_request(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the frame of a request."""
    return b"".join(encode_request_parts(request, version, correlation_id, client_id))


def encode_request_parts(
    request: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """Return the frame of a request as a list of buffers. Records are not copied, and must not change until sent."""
    header = encode_request_header(RequestHeader(request.key, version, correlation_id, client_id))
    out: list[Any] = [header]
    encoder(type(request), version)(request, out)
    out[0] = sum(map(len, out)).to_bytes(LENGTH_BYTES, "big") + header
    return out


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """Return the frame of a response. Its records must be bytes, not slices of files."""
    out: list[Any] = [encode_response_header(response.key, version, correlation_id)]
    encoder(type(response), version)(response, out)
    return _frame(out)


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request[Any]]:
    """Return the header and the body of a request, from a frame without its size.

    Raise DecodeError if the frame is malformed, or has an unknown API or version.
    """
    header, pos = decode_request_header(frame, 0, len(frame))
    api = APIS[header.key]
    if header.version not in api.accepted:
        raise DecodeError(f"{api.name} has no version {header.version}")
    return header, decoder(api.request, header.version)(frame, pos, len(frame))


def decode_response(cls: type[R], version: int, frame: Buffer) -> tuple[int, R]:
    """Return the correlation id and the body of a response of a known class and version."""
    correlation_id, pos = decode_response_header(frame, 0, len(frame), cls.key, version)
    return correlation_id, decoder(cls, version)(frame, pos, len(frame))


def _frame(out: list[Any]) -> bytes:
    body = b"".join(out)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
