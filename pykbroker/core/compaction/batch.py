"""A batch that some of its records have left, or that learns when its tombstones may go."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pykbroker.core.compaction.places import RecordPlace
from wire.records.batch import CODEC_MASK, DELETE_HORIZON, Batch
from wire.records.builder import sealed
from wire.records.compression import Codec, compress
from wire.records.zigzag import varint

NO_TIMESTAMP = -1


def rebuilt(batch: Batch, data: bytes, kept: Sequence[RecordPlace], horizon_ms: int | None) -> bytes:
    """The batch with these of its records, `data` being all of them, in its codec.

    Offsets, sequence and producer stay as they were. `horizon_ms`: the delete horizon that it gets now; it takes the
    place of the base timestamp, so that all records are written anew.
    """
    if horizon_ms is None:
        payload = b"".join([data[one.start : one.end] for one in kept])
        header = batch
    else:
        payload = b"".join([_moved(data, one, batch.base_timestamp - horizon_ms) for one in kept])
        header = replace(batch, attributes=batch.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
    youngest = max(one.timestamp_delta for one in kept) + batch.base_timestamp
    if batch.is_log_append_time:
        youngest = batch.max_timestamp
    return sealed(replace(header, max_timestamp=youngest, count=len(kept)), compress(batch.codec, payload))


def emptied(batch: Batch) -> bytes:
    """The bare header: where the batch stood, and whose it was."""
    attributes = batch.attributes & ~(CODEC_MASK | DELETE_HORIZON) | Codec.NONE
    return sealed(replace(batch, attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0), b"")


def _moved(data: bytes, one: RecordPlace, by_ms: int) -> bytes:
    """A record whose timestamp delta is counted from elsewhere."""
    record = b"".join((data[one.body : one.body + 1], varint(one.timestamp_delta + by_ms), data[one.rest : one.end]))
    return varint(len(record)) + record
