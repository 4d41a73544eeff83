"""Rewriting a batch without some of its records, or with a delete horizon."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pykbroker.core.compaction.places import RecordPlace
from wire.records.batch import CODEC_MASK, DELETE_HORIZON, Batch
from wire.records.builder import sealed
from wire.records.compression import Codec, compress
from wire.records.zigzag import varint
from wire.sentinels import NO_TIMESTAMP


def rebuilt(batch: Batch, data: bytes, kept: Sequence[RecordPlace], horizon_ms: int | None) -> bytes:
    """Return the batch with only the records `kept` of its decompressed payload `data`, compressed with its codec.

    Offsets, sequence and producer do not change. If `horizon_ms` is given, it becomes the batch's delete horizon. The
    header has it in place of the base timestamp, so that every record's timestamp delta is rewritten.
    """
    if horizon_ms is None:
        payload = b"".join([data[one.start : one.end] for one in kept])
        header = batch
    else:
        payload = b"".join([_moved(data, one, batch.base_timestamp - horizon_ms) for one in kept])
        header = replace(batch, attributes=batch.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
    youngest = max(one.timestamp_delta for one in kept) + batch.base_timestamp
    # With LogAppendTime, the time of the header is that of every record.
    if batch.is_log_append_time:
        youngest = batch.max_timestamp
    return sealed(replace(header, max_timestamp=youngest, count=len(kept)), compress(batch.codec, payload))


def emptied(batch: Batch) -> bytes:
    """Return the batch as a bare header: its offsets, producer and sequence, without records."""
    attributes = batch.attributes & ~(CODEC_MASK | DELETE_HORIZON) | Codec.NONE
    return sealed(replace(batch, attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0), b"")


def _moved(data: bytes, one: RecordPlace, by_ms: int) -> bytes:
    """Return a record with its timestamp delta raised by `by_ms`."""
    record = b"".join((data[one.body : one.body + 1], varint(one.timestamp_delta + by_ms), data[one.rest : one.end]))
    return varint(len(record)) + record
