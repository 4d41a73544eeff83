"""The format of snapshot files: `<20 digits: end offset>-<10 digits: epoch>.checkpoint`, and `bootstrap.checkpoint`.

A file consists of record batches whose offsets count from the file's start: a control batch with SnapshotHeader (and
with the voters, if the log records them), data batches, and a control batch with SnapshotFooter. A file without the
footer is incomplete. Source: KIP-630, KIP-853.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.quorum.journal import BATCH_BYTES_MAX
from wire.declare import Buffer
from wire.errors import DecodeError
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder
from wire.records.control import KRaftValue, control_records, kraft_batch
from wire.records.record import records
from wire.stored.control import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord

BATCH_RECORDS_MAX = 1024
"""The size of a batch in Kafka's snapshots (`SnapshotEmitter.DEFAULT_BATCH_SIZE`)."""
BATCH_BYTES_ENOUGH = 1 << 20
NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


QuorumRecord = KRaftVersionRecord | VotersRecord
"""A control record about the log's own quorum."""


def snapshot_name(snapshot: OffsetAndEpoch) -> str:
    """Return the name of the file of a snapshot, whose id is the end of its records."""
    return f"{snapshot.offset:020}-{snapshot.epoch:010}.checkpoint"


def snapshot_of(name: str) -> OffsetAndEpoch | None:
    """Return the id of the snapshot in a file of this name, or None if the file is not a snapshot."""
    found = NAME.fullmatch(name)
    return None if found is None else OffsetAndEpoch(int(found[1]), int(found[2]))


class Content(msgspec.Struct, frozen=True):
    """The content of a snapshot file: the time of the last record, the control records and the data records' values."""

    time_ms: int
    quorum: tuple[QuorumRecord, ...]
    values: tuple[Buffer | None, ...]


def encode_snapshot(
    values: Iterable[bytes], epoch: int, time_ms: int, now_ms: int, quorum: Sequence[QuorumRecord] = ()
) -> list[bytes]:
    """Return the batches of the file. `time_ms` is the append time of the last record that the snapshot contains."""
    header: list[KRaftValue] = [SnapshotHeaderRecord(last_contained_log_timestamp=time_ms), *quorum]
    parts = [kraft_batch(header, base_offset=0, leader_epoch=epoch, timestamp=now_ms)]
    offset = len(header)
    for builder in _filled(values, now_ms):
        builder.base_offset, builder.leader_epoch = offset, epoch
        parts.append(builder.build())
        offset += builder.count
    parts.append(kraft_batch([SnapshotFooterRecord()], base_offset=offset, leader_epoch=epoch, timestamp=now_ms))
    return parts


def _filled(values: Iterable[bytes], now_ms: int) -> Iterator[BatchBuilder]:
    builder = BatchBuilder()
    for value in values:
        if builder.count == BATCH_RECORDS_MAX or (builder.count and builder.size + len(value) > BATCH_BYTES_ENOUGH):
            yield builder
            builder = BatchBuilder()
        builder.append(None, value, timestamp=now_ms)
    if builder.count:
        yield builder


def decode_snapshot(content: Buffer) -> Content:
    """Parse the file. Raise DecodeError if it is damaged or incomplete."""
    found = list(batches(content, strict=True))
    _check(found)
    control = [record.value for batch in found if batch.is_control for record in control_records(batch)]
    if not control or not isinstance(control[0], SnapshotHeaderRecord):
        raise DecodeError("the file does not begin with a snapshot header")
    if not found[-1].is_control or not isinstance(control[-1], SnapshotFooterRecord):
        raise DecodeError("the file does not end with a snapshot footer")
    quorum = tuple(value for value in control if isinstance(value, KRaftVersionRecord | VotersRecord))
    return Content(control[0].last_contained_log_timestamp, quorum, tuple(_values(found)))


def _check(found: Sequence[Batch]) -> None:
    """Raise DecodeError unless every batch has a valid CRC, the expected offset and the epoch of the first batch."""
    offset = 0
    for batch in found:
        if not batch.crc_ok():
            raise DecodeError(f"the batch at offset {batch.base_offset} does not match its checksum")
        if batch.base_offset != offset or batch.leader_epoch != found[0].leader_epoch:
            raise DecodeError(
                f"expected a batch of offset {offset} and epoch {found[0].leader_epoch}, found one "
                f"of offset {batch.base_offset} and epoch {batch.leader_epoch}"
            )
        offset = batch.last_offset + 1


def _values(found: Sequence[Batch]) -> Iterator[Buffer | None]:
    for batch in found:
        if not batch.is_control:
            for record in records(batch, BATCH_BYTES_MAX):
                yield record.value
