"""The producers of a log at one offset, as a file: what recovery need not read the log for.

Shape: version i16 = 1, CRC-32C u32 of all after it, count i32, then for each producer: id i64, epoch i16,
last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32, first offset of the open
transaction i64; -1 for none. Of the five remembered batches only the last is kept. Big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

from pykbroker.core.replication.producers import SEQUENCE_MASK, Producer, Producers, Written
from wire.records.crc import crc32c

HEAD = Struct(">hIi")
ENTRY = Struct(">qhiqiqiq")
VERSION = 1
CRC_START = 6


class CorruptSnapshot(ValueError):
    """Not a producer snapshot, or a damaged one."""


def encode(producers: Iterable[Producer]) -> bytes:
    """The file."""
    entries = b"".join(map(_entry, producers))
    content = (len(entries) // ENTRY.size).to_bytes(4, "big") + entries
    return VERSION.to_bytes(2, "big") + crc32c(content).to_bytes(4, "big") + content


def _entry(one: Producer) -> bytes:
    last = one.batches[-1] if one.batches else Written(-1, -1, -1, 0, -1)
    return ENTRY.pack(one.producer_id, one.epoch, last.last_sequence, last.last_offset, last.offset_delta,
                      one.last_timestamp, one.coordinator_epoch, one.txn_first_offset)


def decode(data: bytes) -> Producers:
    """The producers in the file. CorruptSnapshot."""
    try:
        version, crc, count = HEAD.unpack_from(data)
    except error:
        raise CorruptSnapshot(f"{len(data)} bytes") from None
    if version != VERSION or len(data) != HEAD.size + count * ENTRY.size or crc32c(data, CRC_START) != crc:
        raise CorruptSnapshot(f"version {version}, {count} producers in {len(data)} bytes, checksum {crc:08x}")
    return Producers(tuple(_producer(*fields) for fields in ENTRY.iter_unpack(data[HEAD.size :])))


def _producer(producer_id: int, epoch: int, last_sequence: int, last_offset: int, delta: int, timestamp: int,
              coordinator_epoch: int, txn_first_offset: int) -> Producer:
    first = (last_sequence - delta) & SEQUENCE_MASK
    last = Written(first, last_sequence, last_offset, delta, timestamp) if last_sequence >= 0 else None
    return Producer(producer_id, epoch, last=last, last_timestamp=timestamp, coordinator_epoch=coordinator_epoch,
                    txn_first_offset=txn_first_offset)
