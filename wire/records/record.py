"""The decompressed records of a batch: iteration for readers, and validation for appends.

A record has the fields length varint (of all bytes after it), attributes i8 = 0, timestamp delta varlong, offset delta
varint, key, value, and header count varint. A key or value is a varint length, -1 for null, and its bytes. Each header
has a key and a value. The key of a header is UTF-8 and never null. Source: KIP-98, KIP-82.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from wire.declare import REQUEST_ELEMENTS_MAX
from wire.errors import DecodeError
from wire.records.batch import HEADER_BYTES, Batch
from wire.records.compression import decompress
from wire.records.walk import walked
from wire.records.zigzag import read_varint, read_varlong

INDEXES_MAX = 1000
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_RECORD_BYTES_MIN = 7  # six fields of one byte each, and the length

Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, gc=False, frozen=True):
    """A record. The offset is absolute, and the timestamp is in ms since 1970. A null value is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def records(batch: Batch, bytes_max: int) -> Iterator[Record]:
    """Yield the records of a batch.

    Offsets may have gaps, which compaction leaves. The CRC is not checked. Raise DecodeError if the batch is damaged.
    Raise TooLarge if it decompresses to more than `bytes_max` bytes.
    """
    return _records(batch, content(batch, bytes_max))


def _records(batch: Batch, data: bytes) -> Iterator[Record]:
    cursor = RecordCursor(batch, data)
    while cursor.left:
        yield cursor.take()
    cursor.finish()


class RecordCursor:
    """A cursor in the records of a batch. `left` is the number of records that are not read yet.

    A caller that knows the layout of the next records may parse `data` from `pos` on itself, and then call `skip`.
    """

    def __init__(self, batch: Batch, data: bytes) -> None:
        """Start at the first record. `data` has the decompressed records of the batch."""
        self.data, self.pos, self.left = data, 0, batch.count
        self.base_offset, self.last_offset_delta = batch.base_offset, batch.last_offset_delta
        self._base_timestamp, self._count = batch.base_timestamp, batch.count
        self._append_time = batch.max_timestamp if batch.is_log_append_time else None

    def take(self) -> Record:
        """Return the next record. Raise DecodeError if the record is damaged."""
        data = self.data
        try:
            pos, end = _bounds(data, self.pos)
            timestamp_delta, pos = read_varlong(data, pos + 1) if data[pos + 1] else (0, pos + 2)
            offset_delta, pos = read_varint(data, pos)
            key, pos = read_field(data, pos)
            value, pos = read_field(data, pos)
            headers, pos = read_headers(data, pos) if data[pos] else ((), pos + 1)
        except IndexError:
            raise DecodeError(f"records cut off at {len(data)} bytes") from None
        if pos != end or not 0 <= offset_delta <= self.last_offset_delta:
            raise DecodeError(f"record of offset delta {offset_delta} ends at byte {pos}, not {end}")
        timestamp = self._base_timestamp + timestamp_delta if self._append_time is None else self._append_time
        self.pos = end
        self.left -= 1
        return Record(self.base_offset + offset_delta, timestamp, key, value, headers)

    def skip(self, count: int, pos: int) -> None:
        """Continue at `pos`, after `count` records that the caller has parsed itself."""
        self.pos = pos
        self.left -= count

    def finish(self) -> None:
        """Raise DecodeError if bytes follow the last record."""
        if self.pos != len(self.data):
            raise DecodeError(f"{len(self.data) - self.pos} bytes after {self._count} records")


class NoKeys(DecodeError):
    """An error for records without a key. `indexes` has the indexes of the first `INDEXES_MAX` such records."""

    def __init__(self, indexes: list[int], count: int) -> None:
        super().__init__(f"{count} records without a key, the first is record {indexes[0]}")
        self.indexes, self.count = indexes, count


def validate_content(
    data: bytes, count: int, base_timestamp: int, key_required: bool, headers_max: int | None
) -> tuple[int, int]:
    """Validate `count` decompressed records, at least one. Return the smallest and the largest timestamp.

    Raise DecodeError if a record is damaged, or if the offset deltas are not 0 to n - 1 in order. Raise NoKeys if
    `key_required` is true and a record has no key. Raise TooLong if the records have more than `headers_max` headers.
    """
    if count * _RECORD_BYTES_MIN > len(data):
        raise DecodeError(f"{count} records in {len(data)} bytes")
    found = walked(data, count, len(data) if headers_max is None else headers_max)
    if key_required and found.keyless:
        raise NoKeys(list(islice(_keyless(data, count), INDEXES_MAX)), found.keyless)
    oldest, youngest = base_timestamp + found.smallest, base_timestamp + found.largest
    if not _INT64_MIN <= oldest <= youngest <= _INT64_MAX:
        raise DecodeError(f"timestamps from {oldest} to {youngest}")
    return oldest, youngest


def _keyless(data: bytes, count: int) -> Iterator[int]:
    """Yield the indexes of the records without a key. The records are valid."""
    end = 0
    for index in range(count):
        pos, end = _bounds(data, end)
        key, _ = read_field(data, read_varint(data, read_varlong(data, pos + 1)[1])[1])
        if key is None:
            yield index


def content(batch: Batch, bytes_max: int) -> bytes:
    """Return the decompressed payload. It is long enough for the number of records in the header.

    Raise DecodeError if the payload is too short or damaged. Raise TooLarge if it has more than `bytes_max` bytes.
    """
    if not batch.count and batch.size == HEADER_BYTES:
        return b""  # compaction may keep the header of a batch without records
    data = bytes(decompress(batch.codec, batch.payload, bytes_max))
    if batch.count < 0 or batch.count * _RECORD_BYTES_MIN > len(data):
        raise DecodeError(f"{batch.count} records in {len(data)} bytes")
    return data


def _bounds(data: bytes, pos: int) -> tuple[int, int]:
    """Return the position after the length of the record at `pos`, and the end of the record."""
    size, pos = read_varint(data, pos)
    end = pos + size
    if end > len(data) or size < 0:
        raise DecodeError(f"record of {size} bytes, {len(data) - pos} left")
    return pos, end


def read_field(data: bytes, pos: int) -> tuple[bytes | None, int]:
    """Return the nullable field at `pos` and its end. The caller checks that the end is within the record."""
    byte = data[pos]
    if byte < 0x80 and not byte & 1:
        return data[pos + 1 : pos + 1 + (byte >> 1)], pos + 1 + (byte >> 1)
    size, pos = read_varint(data, pos)
    if size < 0:
        if size < -1:
            raise DecodeError(f"field of {size} bytes")
        return None, pos
    return data[pos : pos + size], pos + size


def read_headers(data: bytes, pos: int) -> tuple[Headers, int]:
    """Return the headers at `pos`, which begin with their count, and their end."""
    count, pos = read_varint(data, pos)
    if not 0 <= count <= REQUEST_ELEMENTS_MAX:
        raise DecodeError(f"{count} headers")
    headers = []
    for _ in range(count):
        key, pos = read_field(data, pos)
        value, pos = read_field(data, pos)
        if key is None:
            raise DecodeError("header without a key")
        headers.append((str(key, "utf-8", "replace"), value))
    return tuple(headers), pos
