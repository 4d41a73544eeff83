"""The positions of the records in a decompressed batch, and the fields that compaction reads."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from wire.errors import DecodeError
from wire.records.zigzag import read_varint, read_varlong

DIGEST_BYTES = 20
"""The size of a digest. It replaces a key of this size or more, so a digest never equals a shorter key."""


class RecordPlace(NamedTuple):
    """The position of a record: its bytes are start..end.

    `body` is the position of its attributes, `rest` that of the fields after its timestamp delta.
    """

    start: int
    body: int
    rest: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def places(data: bytes, count: int) -> list[RecordPlace]:
    """Return the positions of all records in a batch's payload. Raise DecodeError if the payload is corrupt."""
    found: list[RecordPlace] = []
    pos = 0
    try:
        for _ in range(count):
            start = pos
            size, body = read_varint(data, pos)
            pos = body + size
            timestamp_delta, rest = read_varlong(data, body + 1)
            offset_delta, at = read_varint(data, rest)
            key_bytes, at = read_varint(data, at)
            key = None
            if key_bytes >= 0:
                key = data[at : at + key_bytes] if key_bytes < DIGEST_BYTES else digest(data[at : at + key_bytes])
                at += key_bytes
            if not at < pos <= len(data):
                raise DecodeError(f"the record at byte {start} of {len(data)} has a wrong size: {size} bytes")
            # A value of length -1, which is the varint 1, is a tombstone.
            found.append(RecordPlace(start, body, rest, pos, timestamp_delta, offset_delta, key, data[at] != 1))
    except IndexError:
        raise DecodeError(f"the records are cut off after {len(data)} bytes") from None
    if pos != len(data):
        raise DecodeError(f"{len(data) - pos} unexpected bytes follow the {count} records")
    return found


def digest(key: bytes) -> bytes:
    """Return the digest that replaces a long key."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
