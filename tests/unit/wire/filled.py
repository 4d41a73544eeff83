"""Messages in which every field of a version has a value other than its default."""

from functools import cache
from typing import Any

import msgspec

from wire.compile import encoder
from wire.declare import Message
from wire.schema import Type, fields_of

FIXED = {
    "?": True,
    "b": 7,
    "h": 700,
    "H": 60_000,
    "i": 70_000,
    "I": 3_000_000_000,
    "q": 7 << 40,
    "d": 0.5,
    "16s": bytes(range(16)),
}


def filled(cls: type[msgspec.Struct], version: int) -> Any:
    """Return a message whose arrays have two elements and whose fields are not null."""
    return cls(**{field.name: _value(field.type, version) for field in fields_of(cls) if version in field.versions})


@cache
def filled_bytes(cls: type[Message], version: int) -> bytes:
    """Return the encoded message."""
    out: list[Any] = []
    encoder(cls, version)(filled(cls, version), out)
    return b"".join(out)


def _value(of: Type, version: int) -> Any:
    if of.fixed:
        return FIXED[of.fixed.code]
    if of.struct:
        return filled(of.struct, version)
    if of.item:
        return [_value(of.item, version), _value(of.item, version)]
    return "text" if of.is_string else b"bytes"
