"""Control records, which brokers and clients read: transaction markers, and the control records of KRaft.

The key has i16 version and i16 type. A transaction marker is the only record of a transactional batch, which has the
producer's id and epoch. Its value is i16 version, then EndTxnMarker. KRaft control records may share a batch, and their
values begin with a version too. Records of newer brokers are no error: a record of an unknown type has value None, and
an unknown version is read as the newest known version. Source: KIP-98, KIP-595, KIP-630, KIP-853.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

from wire.compile import decoder, encoder
from wire.declare import Buffer
from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.record import Record, records
from wire.stored.control import (
    ControlRecordTypeSchema,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from wire.stored.framing import decode_versioned, encode_versioned
from wire.versions import parse_versions

CONTROL_BYTES_MAX = 1 << 20  # the maximum decompressed size of a control batch

KRaftValue = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord


class ControlType(IntEnum):
    """The type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KRAFT: Final[dict[int, type[KRaftValue]]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_TYPES: Final = {value: ControlType(number) for number, value in _KRAFT.items()}


class ControlRecord(msgspec.Struct, frozen=True):
    """A control record. `value` is None for an unknown type."""

    offset: int
    type: int
    value: EndTxnMarker | KRaftValue | None


MARKER_BYTES = 78
"""The size of the batch that `transaction_marker` returns."""


def transaction_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the batch that ends a producer's transaction in one partition. `timestamp` is in ms since 1970."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    key = _key(ControlType.COMMIT if commit else ControlType.ABORT)
    builder.append(key, encode_versioned(EndTxnMarker(coordinator_epoch=coordinator_epoch), 0), (), timestamp)
    return builder.build()


def kraft_batch(values: Sequence[KRaftValue], *, base_offset: int, leader_epoch: int, timestamp: int) -> bytes:
    """Return one batch of KRaft control records, each in the version in its field `version`.

    `timestamp` is in ms since 1970.
    """
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, control=True)
    for value in values:
        out: list[Any] = []
        encoder(type(value), value.version)(value, out)
        builder.append(_key(_TYPES[type(value)]), b"".join(out), (), timestamp)
    return builder.build()


def control_records(batch: Batch) -> Iterator[ControlRecord]:
    """Yield the records of a control batch. Raise DecodeError if the batch is damaged, or is no control batch."""
    if not batch.is_control:
        raise DecodeError(f"the batch at offset {batch.base_offset} is not a control batch")
    for record in records(batch, CONTROL_BYTES_MAX):
        yield _control_record(record)


def _control_record(record: Record) -> ControlRecord:
    if record.key is None or record.value is None:
        raise DecodeError(f"control record at offset {record.offset} without key or value")
    number = decode_versioned(ControlRecordTypeSchema, record.key, newer=True).type
    if number in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(record.offset, number, decode_versioned(EndTxnMarker, record.value, newer=True))
    known = _KRAFT.get(number)
    return ControlRecord(record.offset, number, None if known is None else _kraft_value(known, record.value))


def _kraft_value(cls: type[KRaftValue], value: Buffer) -> KRaftValue:
    version = min(int.from_bytes(value[:2], "big", signed=True), parse_versions(cls.versions).last)
    if version < 0:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    return decoder(cls, version)(value, 0, len(value))


def _key(number: ControlType) -> bytes:
    return encode_versioned(ControlRecordTypeSchema(type=number), 0)
