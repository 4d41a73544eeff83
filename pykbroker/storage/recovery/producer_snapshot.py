"""A producer snapshot: a file with the producers of a log at one offset, which shortens recovery.

The file begins with version i16 = 1, CRC-32C u32 of all bytes after it, and count i32. Each producer then has these
fields: id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32,
and first offset of the open transaction i64, or -1. Numbers are big-endian. Kafka writes only the last of a producer's
five remembered batches. pykbroker writes the older batches too, as separate entries before the last, so that it detects
their retries after a restart. Kafka uses the last entry of a producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error

from pykbroker.core.log.producers import Producers, ProducerState, WrittenBatch
from pykbroker.core.sequence_numbers import SEQUENCE_MASK
from wire.records.crc import crc32c

HEAD = Struct(">hIi")
ENTRY = Struct(">qhiqiqiq")
VERSION = 1
CRC_START = 6
NO_BATCH = WrittenBatch(-1, -1, -1, 0, -1)


class CorruptSnapshot(ValueError):
    """An error for a producer snapshot that is invalid, damaged, or contradicts its log."""


def encode(producers: Iterable[ProducerState]) -> bytes:
    """Return the content of a .snapshot file."""
    entries = b"".join(entry for one in producers for entry in _entries(one))
    content = (len(entries) // ENTRY.size).to_bytes(4, "big") + entries
    return VERSION.to_bytes(2, "big") + crc32c(content).to_bytes(4, "big") + content


def _entries(one: ProducerState) -> Iterator[bytes]:
    *older, last = one.batches or (NO_BATCH,)
    for batch in older:
        yield ENTRY.pack(
            one.producer_id,
            one.epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            batch.timestamp,
            -1,
            -1,
        )
    yield ENTRY.pack(
        one.producer_id,
        one.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        one.last_timestamp,
        one.coordinator_epoch,
        one.txn_first_offset,
    )


def decode(data: bytes) -> Producers:
    """Return the producers in a .snapshot file. Raise CorruptSnapshot if the file is invalid or damaged."""
    try:
        version, crc, count = HEAD.unpack_from(data)
    except error:
        raise CorruptSnapshot(f"{len(data)} bytes") from None
    if version != VERSION or len(data) != HEAD.size + count * ENTRY.size or crc32c(data, CRC_START) != crc:
        raise CorruptSnapshot(f"version {version}, {count} producers in {len(data)} bytes, checksum {crc:08x}")
    found: dict[int, ProducerState] = {}
    for producer_id, epoch, last_sequence, last_offset, delta, *rest in ENTRY.iter_unpack(data[HEAD.size :]):
        producer = found.setdefault(producer_id, ProducerState(producer_id, epoch))
        producer.last_timestamp, producer.coordinator_epoch, producer.txn_first_offset = rest
        if last_sequence >= 0:
            first = (last_sequence - delta) & SEQUENCE_MASK
            producer.remember(epoch, WrittenBatch(first, last_sequence, last_offset, delta, producer.last_timestamp))
    return Producers(tuple(found.values()))
