"""The framing of Confluent's serializers: a zero, the id of the schema in four bytes, and the encoded record."""

from __future__ import annotations

import struct

from pykbroker.pipeline.decoding.bad_record import BadRecord

MAGIC = 0
_FRAME = struct.Struct(">bI")


def unframed(value: bytes) -> tuple[int, bytes]:
    """Return the id of the schema and the encoded record. Raise BadRecord for a value without the framing."""
    if len(value) < _FRAME.size:
        raise BadRecord(f"the value has {len(value)} bytes, fewer than the {_FRAME.size} of magic byte and schema id")
    magic, schema_id = _FRAME.unpack_from(value)
    if magic != MAGIC:
        raise BadRecord(f"the value begins with the byte {magic & 0xFF}, not with the magic byte {MAGIC}")
    return schema_id, value[_FRAME.size :]


def framed(schema_id: int, record: bytes) -> bytes:
    """Return an encoded record with its framing."""
    return _FRAME.pack(MAGIC, schema_id) + record
