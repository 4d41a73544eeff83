"""The decoding of runs: consecutive records of committed offsets, which are decoded many at a time.

A commit writes one record for each of its partitions, usually with equal group, topic and size. The first record is
parsed. The following records are unpacked by one `struct.Struct`, as long as they differ only in offset delta,
partition, offset, leader epoch, metadata and time. A record of a run takes a seventh of the time of the general
decoders. All other records, and damaged ones, are left to the general decoders.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from wire.declare import NIL, STRING_BYTES_MAX
from wire.records.record import RecordCursor
from wire.records.zigzag import read_varint
from wire.sentinels import NO_TIMESTAMP
from wire.stored.framing import I16_BYTES, RecordRun
from wire.stored.group_offsets import OffsetCommitKey
from wire.varint import read_uvarint

RUN_RECORDS_MIN, RUN_RECORDS_MAX = 2, 1000
"""The minimum and the maximum number of records in a run. The general decoders read a single record in less time."""
SHAPES_MAX = 1024
"""The number of layouts whose `struct.Struct` is cached."""

KEY_TYPE = OffsetCommitKey.record_type.to_bytes(I16_BYTES, "big")
PLAIN, FLEXIBLE = b"\x00\x03", b"\x00\x04"
"""The versions of values that this module reads. Only brokers before 2.1 wrote older versions."""
PARTITION_BYTES, OFFSET_AND_EPOCH_BYTES, TIME_BYTES = 4, 12, 8
NO_TAGS, TOPIC_ID_TAG = b"\x00", b"\x01\x00\x10"
TOPIC_ID = slice(len(TOPIC_ID_TAG), len(TOPIC_ID_TAG) + 16)
NARROW_DELTA, WIDE_DELTA = (0x81, 0), (0x8180, 0x8000)
"""For varints of one and of two bytes: a mask, and the masked value of a varint of this length that is not negative."""

T = TypeVar("T")
Make = Callable[[int, int, str, int, int, bytes, int], T]
"""A constructor of offset, leader epoch, metadata, commit time, expiry time, topic id, and offset of the record."""


class OffsetRun(RecordRun, Generic[T]):
    """The offsets that a group has committed in partitions of one topic, with the newest offset of each partition."""

    group: str
    topic: str
    offsets: dict[int, T]


class Layout(NamedTuple):
    """The positions of the parts of a record, and of its end, in the content of its batch.

    Within a run only the bytes from `delta` to `key`, from `partition` to `version`, and from `offset` to `tail` may
    differ, except the length of the metadata.
    """

    start: int
    delta: int
    key: int  # position of the key's length
    partition: int
    version: int  # position of the value's length
    offset: int
    metadata_length: int
    metadata: int
    time: int
    tail: int  # position of the tagged fields and the count of headers
    end: int


def read_offset_run(cursor: RecordCursor, make: Make[T]) -> OffsetRun[T] | None:
    """Decode a run of records at the cursor and skip it.

    Return None if the next record must be left to the general decoders.
    """
    if cursor.left < RUN_RECORDS_MIN:
        return None
    data = cursor.data
    try:
        layout = _layout(data, cursor.pos)
        if layout is None:
            return None
        group, topic = _names(data, layout)
    except (IndexError, UnicodeDecodeError):
        return None
    run = OffsetRun[T](0, group, topic, {})
    _read(run, cursor, layout, make)
    cursor.skip(run.count, layout.start + run.count * (layout.end - layout.start))
    return run if run.count else None


def _layout(data: bytes, start: int) -> Layout | None:
    """Return the layout of the record at `start`. Return None or raise IndexError if general decoders must read it."""
    size, pos = read_varint(data, start)
    delta, end = pos + 2, pos + size
    key = delta + 1 if data[delta] < 0x80 else delta + 2
    key_bytes, pos = read_varint(data, key)
    if data[delta - 1] > 0x7F or data[pos : pos + I16_BYTES] != KEY_TYPE:
        return None
    version = pos + key_bytes
    value_bytes, pos = read_varint(data, version)
    if pos + value_bytes + 1 != end or data[end - 1]:
        return None  # the record has headers, or its length is wrong
    offset = pos + I16_BYTES
    metadata_length = offset + OFFSET_AND_EPOCH_BYTES
    if data[pos:offset] == FLEXIBLE:
        metadata_bytes, metadata = read_uvarint(data, metadata_length)
        metadata_bytes -= 1
    else:
        metadata = metadata_length + 2
        metadata_bytes = int.from_bytes(data[metadata_length:metadata], "big")
    time = metadata + metadata_bytes
    tail = time + TIME_BYTES
    fits = 0 <= metadata_bytes <= STRING_BYTES_MAX and tail < end
    if not fits or not _is_known(data[pos:offset], data[tail : end - 1]):
        return None
    return Layout(
        start, delta, key, version - PARTITION_BYTES, version, offset, metadata_length, metadata, time, tail, end
    )


def _is_known(version: bytes, tags: bytes) -> bool:
    """Whether this module reads the version, and the bytes after the commit time are valid in it."""
    if version == FLEXIBLE:
        return tags == NO_TAGS or (tags.startswith(TOPIC_ID_TAG) and len(tags) == TOPIC_ID.stop)
    return version == PLAIN and not tags


def _names(data: bytes, layout: Layout) -> tuple[str, str]:
    """Return the group and the topic of a key. Raise IndexError if their lengths do not match the length of the key."""
    group = read_varint(data, layout.key)[1] + 2 * I16_BYTES
    group_end = group + int.from_bytes(data[group - I16_BYTES : group], "big", signed=True)
    topic = group_end + I16_BYTES
    topic_end = topic + int.from_bytes(data[group_end:topic], "big", signed=True)
    if not group <= group_end < topic <= topic_end == layout.partition:
        raise IndexError("names end elsewhere than their key")
    return str(data[group:group_end], "utf-8"), str(data[topic:topic_end], "utf-8")


def _read(run: OffsetRun[T], cursor: RecordCursor, at: Layout, make: Make[T]) -> None:
    """Add the record at `at` to `run`, and then the following records of the same shape up to the first damaged one."""
    data, base_offset, last_delta, offsets = cursor.data, cursor.base_offset, cursor.last_offset_delta, run.offsets
    same_head, same_key, same_version, same_length, same_tail = (
        data[at.start : at.delta],
        data[at.key : at.partition],
        data[at.version : at.offset],
        data[at.metadata_length : at.metadata],
        data[at.tail : at.end],
    )
    is_wide = at.key - at.delta > 1
    mask, bits = WIDE_DELTA if is_wide else NARROW_DELTA
    topic_id = same_tail[TOPIC_ID] or NIL
    text, metadata, time_ms = b"", "", 0
    try:
        for head, delta, key, partition, version, offset, epoch, length, its_text, its_time_ms, tail in _rows(
            cursor, at
        ):
            if (
                key != same_key
                or tail != same_tail
                or head != same_head
                or version != same_version
                or length != same_length
                or delta & mask != bits
            ):
                break
            delta = delta >> 9 & 0x3F | (delta & 0x7F) << 6 if is_wide else delta >> 1
            if delta > last_delta:
                break
            if its_text != text:
                text, metadata = its_text, str(its_text, "utf-8")
            if its_time_ms != time_ms:
                time_ms = its_time_ms
            offsets[partition] = make(offset, epoch, metadata, time_ms, NO_TIMESTAMP, topic_id, base_offset + delta)
            run.count += 1
    except UnicodeDecodeError:
        return


def _rows(cursor: RecordCursor, at: Layout) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of the record at `at`, and of the following records with fields of equal sizes."""
    size, left = at.end - at.start, len(cursor.data) - at.start
    count = min(cursor.left, left // size, RUN_RECORDS_MAX)
    shape = _shape(
        at.delta - at.start,
        at.key - at.delta,
        at.partition - at.key,
        at.offset - at.version,
        at.metadata - at.metadata_length,
        at.time - at.metadata,
        at.end - at.tail,
    )
    return shape.iter_unpack(memoryview(cursor.data)[at.start : at.start + count * size])


@lru_cache(SHAPES_MAX)
def _shape(head: int, delta: int, key: int, version: int, length: int, metadata: int, tail: int) -> Struct:
    """Return the `struct.Struct` of records whose parts have these sizes in bytes."""
    return Struct(f">{head}s{'BH'[delta - 1]}{key}si{version}sqi{length}s{metadata}sq{tail}s")
