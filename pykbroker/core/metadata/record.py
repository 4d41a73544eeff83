"""Encoding and decoding of metadata records, and the record versions that a metadata.version allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from wire.declare import Buffer
from wire.schema import fields_of
from wire.stored.framing import FramedRecord, UnknownRecordType
from wire.stored.metadata import decode_metadata, encode_metadata
from wire.stored.metadata_brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from wire.stored.metadata_topics import PartitionChangeRecord, PartitionRecord

IN_SHUTDOWN_LEVEL = 7  # 3.3-IV3, the lowest supported level
MIGRATING_LEVEL = 8  # 3.4-IV0
DIRECTORIES_LEVEL = 17  # 3.7-IV2: directories of replicas
ELR_LEVEL = 23  # 4.0-IV1
CORDONED_LEVEL = 30  # 4.3-IV0


class UnknownRecord(msgspec.Struct, frozen=True):
    """A record of an unknown type, kept as bytes for a broker that supports the type."""

    value: bytes


Record = FramedRecord | UnknownRecord
"""A record of the metadata log."""


def read_record(value: Buffer | None) -> Record:
    """Return the record in a value. Raise DecodeError if the value is damaged or has an unsupported version."""
    try:
        return decode_metadata(value or b"")
    except UnknownRecordType:
        return UnknownRecord(bytes(value or b""))


def write_record(record: Record, level: int) -> bytes:
    """Return the encoded record for a level of metadata.version. Fields that this level lacks are left out."""
    if isinstance(record, UnknownRecord):
        return record.value
    version = record_version(record, level)
    absent = _absent(type(record), version)
    if any(getattr(record, name) != default for name, default in absent.items()):
        record = msgspec.structs.replace(record, **absent)
    return encode_metadata(record, version)


@cache
def _absent(cls: type[FramedRecord], version: int) -> dict[str, Any]:
    """Return the defaults of the fields that a version does not have."""
    return {field.name: field.default for field in fields_of(cls) if version not in field.versions}


def record_version(record: Record, level: int) -> int:
    """Return the version of the record that a level of metadata.version writes."""
    choose = _VERSIONS.get(type(record))
    return 0 if choose is None else choose(record, level)


def _partition(_: Record, level: int) -> int:
    return (level >= DIRECTORIES_LEVEL) + (level >= ELR_LEVEL)


def _register_broker(_: Record, level: int) -> int:
    return sum(level >= least for least in (IN_SHUTDOWN_LEVEL, MIGRATING_LEVEL, DIRECTORIES_LEVEL, CORDONED_LEVEL))


def _broker_change(record: Record, _: int) -> int:
    """Return the lowest version that has all changed fields."""
    assert isinstance(record, BrokerRegistrationChangeRecord)
    if record.cordoned_log_dirs is not None:
        return 3
    return 2 if record.log_dirs else int(record.in_controlled_shutdown != 0)


_VERSIONS: dict[type, Callable[[Record, int], int]] = {
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition,
    RegisterBrokerRecord: _register_broker,
    BrokerRegistrationChangeRecord: _broker_change,
}
