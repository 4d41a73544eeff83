"""A record batch, format v2, as a view on bytes with a parsed header and unparsed records.

The fields are base offset i64, batch length i32 (of all bytes after it), leader epoch i32, magic i8 = 2, CRC-32C u32 of
all bytes after it, attributes i16, last offset delta i32, base and max timestamp i64, producer id i64, producer epoch
i16, base sequence i32, and count i32. The records follow, compressed together. Numbers are big-endian. Source: KIP-98.
"""

from collections.abc import Iterator
from struct import Struct, error

import msgspec

from wire.declare import Buffer
from wire.errors import DecodeError
from wire.records.compression import Codec
from wire.records.crc import crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_OVERHEAD = 12  # the size of base offset and batch length, which the batch length does not include
CRC_START = 21  # the checksum covers all bytes from the attributes on
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_CODECS: tuple[Codec, ...] = tuple(Codec)


class Batch(msgspec.Struct, gc=False, frozen=True):
    """A record batch.

    Header fields have the unverified values that the producer sent. `buffer` is a view of exactly this batch.
    """

    buffer: memoryview
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @classmethod
    def read(cls, buffer: Buffer, pos: int = 0) -> "Batch":
        """Return the batch at `pos`. More batches may follow it.

        Neither the CRC nor the records are checked. Raise DecodeError if the batch is cut off, has a wrong magic, or if
        its length is out of range.
        """
        try:
            fields = HEADER.unpack_from(buffer, pos)
        except error:
            raise DecodeError(f"{len(buffer) - pos} bytes are no batch header of {HEADER_BYTES}") from None
        end = pos + LENGTH_OVERHEAD + fields[1]
        if fields[3] != MAGIC:
            raise DecodeError(f"batch of magic {fields[3]}, not {MAGIC}")
        if end > len(buffer) or end < pos + HEADER_BYTES:
            raise DecodeError(f"batch length {fields[1]} with {len(buffer) - pos} bytes left")
        return cls(memoryview(buffer)[pos:end], *fields)

    @property
    def size(self) -> int:
        """Return the size of the whole batch in bytes."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record, even if compaction has removed this record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> Codec:
        """Return the compression codec. Raise DecodeError if the codec is undefined."""
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise DecodeError(f"unknown compression codec {number}")
        return _CODECS[number]

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp of every record is `max_timestamp`, the time at which the broker appended the batch."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction, as data or as a marker."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which applications do not see."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which compaction may remove tombstones of the batch (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def payload(self) -> memoryview:
        """Return the records as stored, compressed or not."""
        return self.buffer[HEADER_BYTES:]

    def crc_ok(self) -> bool:
        """Whether the checksum in the header matches the bytes."""
        return crc32c(self.buffer, CRC_START) == self.crc


def batches(buffer: Buffer, *, strict: bool = False) -> Iterator[Batch]:
    """Yield the consecutive batches in `buffer`. Raise DecodeError if a batch is damaged.

    An incomplete last batch, as in a Fetch response, ends the iteration. If `strict` is true, an incomplete batch
    raises DecodeError.
    """
    pos, end = 0, len(buffer)
    while pos < end:
        if not strict and _is_cut(buffer, pos):
            return
        batch = Batch.read(buffer, pos)
        yield batch
        pos += batch.size


def _is_cut(buffer: Buffer, pos: int) -> bool:
    """Whether the buffer ends before the end of the batch at `pos`."""
    left = len(buffer) - pos
    if left < HEADER_BYTES:
        return True
    return left < LENGTH_OVERHEAD + int.from_bytes(buffer[pos + 8 : pos + 12], "big", signed=True)
