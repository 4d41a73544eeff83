"""The building of record batches: metadata records, control records, and batches of tests and benchmarks.

1. To seal a batch, its header is packed and the checksum of header and payload is computed in one pass.
2. A batch that the broker must rewrite (`compression.type`, LogAppendTime) is sealed again. Offsets and leader epochs
   are outside the checksum, and are overwritten in place.
"""

from struct import Struct, error

import msgspec
from msgspec.structs import replace

from wire.declare import Buffer
from wire.errors import EncodeError
from wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    Batch,
)
from wire.records.columns import encode_record
from wire.records.compression import Codec, compress, decompress
from wire.records.crc import crc32c
from wire.records.record import Headers

_UNCHECKED, _CHECKED = Struct(">qiibI"), Struct(">hiqqqhii")  # the fields up to the checksum, and the fields after it


class BatchBuilder(msgspec.Struct):
    """A builder of one batch from records. All other fields may be changed until the batch is built.

    The defaults are the values of a producer that is not idempotent. A broker assigns offset and leader epoch.
    """

    codec: Codec = Codec.NONE
    level: int | None = None
    base_offset: int = 0
    leader_epoch: int = -1
    base_timestamp: int | None = None  # the default is the timestamp of the first record
    append_time: int | None = None  # LogAppendTime: the timestamp of every record
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    max_timestamp: int = -1
    count: int = 0
    payload: bytearray = msgspec.field(default_factory=bytearray)

    @property
    def size(self) -> int:
        """Return the size of the batch so far in bytes, before compression."""
        return HEADER_BYTES + len(self.payload)

    def append(self, key: Buffer | None, value: Buffer | None, headers: Headers = (), timestamp: int = -1) -> None:
        """Add a record at the next offset."""
        if self.base_timestamp is None:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.payload += encode_record(key, value, headers, timestamp - self.base_timestamp, self.count)
        self.count += 1

    def build(self) -> bytes:
        """Return the batch. Raise EncodeError if the batch is empty, or if a field is out of its range."""
        if not self.count or self.base_timestamp is None:
            raise EncodeError("a batch of no records")
        attributes = (
            self.codec
            | LOG_APPEND_TIME * (self.append_time is not None)
            | TRANSACTIONAL * self.transactional
            | CONTROL * self.control
        )
        max_timestamp = self.max_timestamp if self.append_time is None else self.append_time
        payload = compress(self.codec, self.payload, self.level) if self.codec else self.payload
        return _sealed(
            payload,
            self.base_offset,
            self.leader_epoch,
            attributes,
            self.count - 1,
            self.base_timestamp,
            max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )


def recompress(batch: Batch, codec: Codec, level: int | None, bytes_max: int) -> Buffer:
    """Return the batch with its records compressed by `codec`, or the same batch if it already has that codec.

    Raise DecodeError if the batch is damaged. Raise TooLarge if the batch decompresses to more than `bytes_max` bytes.
    """
    if batch.codec is codec:
        return batch.buffer
    payload = compress(codec, decompress(batch.codec, batch.payload, bytes_max), level)
    return sealed(replace(batch, attributes=batch.attributes & ~CODEC_MASK | codec), payload)


def stamped(batch: Batch, append_time: int) -> bytes:
    """Return the batch with LogAppendTime. All its records have the timestamp `append_time`, in ms."""
    header = replace(batch, attributes=batch.attributes | LOG_APPEND_TIME, max_timestamp=append_time)
    return sealed(header, batch.payload)


def sealed(header: Batch, payload: Buffer) -> bytes:
    """Return a batch with this payload and the header fields of `header`. Length, magic and checksum are computed."""
    return _sealed(
        payload,
        header.base_offset,
        header.leader_epoch,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    )


def _sealed(payload: Buffer, base_offset: int, leader_epoch: int, *after_checksum: int) -> bytes:
    try:
        checked = _CHECKED.pack(*after_checksum)
        unchecked = _UNCHECKED.pack(
            base_offset,
            HEADER_BYTES - LENGTH_OVERHEAD + len(payload),
            leader_epoch,
            MAGIC,
            crc32c(payload, initial=crc32c(checked)),
        )
        return b"".join((unchecked, checked, payload))
    except error as cause:
        raise EncodeError(f"batch header: {cause}") from None
