"""The principal and the address of a client, as an Envelope carries them from a broker to the controller (KIP-590)."""

from __future__ import annotations

from pykbroker.core.ip_address import parse_ip
from wire.compile import decoder, encoder
from wire.errors import DecodeError
from wire.stored.principal import DefaultPrincipalData

VERSION_BYTES = 2
NEWEST = 0
"""The newest version of `DefaultPrincipalData`."""


def encode_principal(principal: str) -> bytes:
    """Return a principal, such as `User:alice`, behind the version of its encoding."""
    kind, _, name = principal.partition(":")
    parts: list[bytes] = []
    encoder(DefaultPrincipalData, NEWEST)(DefaultPrincipalData(type=kind, name=name), parts)
    return NEWEST.to_bytes(VERSION_BYTES, "big") + b"".join(parts)


def decode_principal(data: bytes) -> str:
    """Return the principal. Raise DecodeError if it is damaged, or of an unknown version."""
    version = int.from_bytes(data[:VERSION_BYTES], "big")
    if len(data) < VERSION_BYTES or version != NEWEST:
        raise DecodeError("the principal has an unknown version")
    found = decoder(DefaultPrincipalData, version)(data, VERSION_BYTES, len(data))
    return f"{found.type}:{found.name}"


def encode_host(host: str) -> bytes:
    """Return the 4 or 16 bytes of a client's address."""
    return parse_ip(host.partition("%")[0]).packed


def decode_host(data: bytes) -> str:
    """Return the address as text. Raise DecodeError if it has neither 4 nor 16 bytes."""
    try:
        return str(parse_ip(data))
    except ValueError:
        raise DecodeError(f"a client address has 4 or 16 bytes, not {len(data)}") from None
