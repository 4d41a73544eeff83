"""The framing that gives the message type and version of a stored record.

1. The value of a metadata record is `varint frame version (1), varint record type, varint version, message`. Its key is
   null.
2. A record of a coordinator has the key `i16 record type, message in version 0` and the value `i16 version, message`.
3. A payload inside another message, such as a consumer's subscription, is `i16 version, message`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from struct import Struct, error
from typing import Any, ClassVar, TypeVar

import msgspec

from wire.compile import decoder, encoder
from wire.declare import Buffer, Stored
from wire.errors import DecodeError
from wire.varint import read_uvarint, uvarint
from wire.versions import parse_versions

FRAME_VERSION = 1
I16_BYTES = 2
I16 = Struct(">h")

S = TypeVar("S", bound=Stored)


class UnknownRecordType(DecodeError):
    """An error for a record of an unknown type, which a newer broker has written. Coordinators skip such records."""


class FramedRecord(Stored):
    """A record in the framing of the metadata log. Most records have one version."""

    record_type: ClassVar[int]
    versions: ClassVar[str] = "0"
    flexible: ClassVar[str] = "0+"
    exact: ClassVar[bool] = True


class CoordinatorKey(Stored):
    """The key of a coordinator's record.

    The last record of a key has its current value. A record without a value deletes the key.
    """

    record_type: ClassVar[int]
    versions: ClassVar[str] = "0"
    flexible: ClassVar[str] = "none"


class CoordinatorValue(Stored):
    """The value of a coordinator's record. Most values have one version."""

    record_type: ClassVar[int]
    versions: ClassVar[str] = "0"
    flexible: ClassVar[str] = "0+"


class RecordRun(msgspec.Struct):
    """The content of `count` coordinator records that were decoded together."""

    count: int


Framed = TypeVar("Framed", bound=FramedRecord)
Catalogue = Mapping[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]]


def encode_framed(record: FramedRecord, version: int) -> bytes:
    """Return the value of a metadata record."""
    out: list[Any] = [uvarint(FRAME_VERSION), uvarint(record.record_type), uvarint(version)]
    encoder(type(record), version)(record, out)
    return b"".join(out)


def decode_framed(types: Mapping[int, type[Framed]], value: Buffer) -> tuple[Framed, int]:
    """Return the record and its version.

    Raise DecodeError if the record is malformed, or of an unknown type or version.
    """
    try:
        frame_version, pos = read_uvarint(value, 0)
        record_type, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except IndexError:
        raise DecodeError("a framed record ends within its frame") from None
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version}")
    if record_type not in types:
        raise UnknownRecordType(f"record type {record_type}")
    return _decoder(types[record_type], version)(value, pos, len(value)), version


def encode_key(key: CoordinatorKey) -> bytes:
    """Return the key of a coordinator's record."""
    out: list[Any] = [key.record_type.to_bytes(I16_BYTES, "big")]
    encoder(type(key), 0)(key, out)
    return b"".join(out)


def decode_key(catalogue: Catalogue, data: Buffer) -> CoordinatorKey:
    """Return the key of a coordinator's record. `catalogue[key.record_type][1]` is the class of its value."""
    record_type = _i16(data)
    if record_type not in catalogue:
        raise UnknownRecordType(f"record type {record_type}")
    key: CoordinatorKey = _decoder(catalogue[record_type][0], 0)(data, I16_BYTES, len(data))
    return key


def encode_versioned(message: Stored, version: int) -> bytes:
    """Return the message after its version, as a coordinator's record value or a payload in another message."""
    out: list[Any] = [version.to_bytes(I16_BYTES, "big")]
    encoder(type(message), version)(message, out)
    return b"".join(out)


def decode_versioned(cls: type[S], data: Buffer, *, newer: bool = False) -> S:
    """Return the message that follows a version.

    Raise DecodeError if the message is malformed, or of an unknown version. If `newer` is true, a newer version is read
    as the newest known version, because clients only append fields.
    """
    version = _i16(data)
    if newer:
        version = min(version, parse_versions(cls.versions).last)
    message: S = _decoder(cls, version)(data, I16_BYTES, len(data))
    return message


def _i16(data: Buffer) -> int:
    try:
        number: int = I16.unpack_from(data)[0]
    except error:
        raise DecodeError("no room for a version") from None
    return number


@cache
def _decoder(cls: type[Stored], version: int) -> Callable[[Buffer, int, int], Any]:
    try:
        return decoder(cls, version)
    except ValueError as unknown:
        raise DecodeError(str(unknown)) from None
