"""Searches for records by timestamp, and for aborted transactions in fetched batches.

A search raises NotCached if it needs the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import CorruptLog, Pending
from pykbroker.storage.segments.headers import Headers
from pykbroker.storage.segments.loading import attempt
from pykbroker.storage.segments.record_times import RecordTimes, TimestampOffset
from pykbroker.storage.segments.segment import Segment
from pykbroker.storage.segments.segments import Segments
from pykbroker.world.disk import Buffer, FileSlice
from wire.errors import DecodeError
from wire.records.batch import Batch


def first_since(segments: Segments, times: RecordTimes, timestamp: int, start_offset: int) -> TimestampOffset | None:
    """Return the first record at or above `start_offset` with this timestamp or a later one."""
    for segment in segments.since(start_offset):
        segment.require_date()
        if segment.max_timestamp < timestamp:
            continue
        segment.require_loaded()
        if found := attempt(segment, partial(_first_in, segment, times, timestamp, start_offset)):
            return found
    return None


def _first_in(segment: Segment, times: RecordTimes, timestamp: int, start_offset: int) -> TimestampOffset | None:
    headers = segment.headers()
    position = segment.position_since(timestamp, start_offset, headers)
    while position < segment.size:
        size = headers.at(position)[1]
        batch = _batch_at(segment, position, size)
        if found := times.first_since(batch, timestamp, start_offset, segment.config.decompressed_bytes_max):
            return found
        position = headers.position_since(timestamp, position + size)
    return None


def youngest(segments: Segments, times: RecordTimes) -> TimestampOffset | None:
    """Return the first record with the largest timestamp, which may be -1 (no timestamp), as in Kafka.

    Return None if there is no record, or none from 1970 on or without a timestamp.
    """
    every = segments.every()
    for segment in every:
        segment.require_date()
    segment = max(every, key=lambda one: one.max_timestamp)
    return first_since(segments, times, segment.max_timestamp, segment.base_offset)


def _batch_at(segment: Segment, position: int, size: int) -> Batch:
    try:
        return Batch.read(segment.file.read_nowait(position, size))
    except DecodeError as damage:
        raise CorruptLog(f"segment {segment.base_offset}: at byte {position}: {damage}") from None


def aborted_within(
    segments: Segments, offset: int, data: Buffer | FileSlice, read_aborted: Callable[[Segment], Awaitable[None]]
) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in `data`, which holds the batches from `offset` on.

    Batches without transactional records have no aborted transactions.
    """
    upper = _upper_offset(offset, data)
    found: list[AbortedTransaction] = []
    if upper is None:
        return found
    for segment in segments.since(offset):
        if segment.aborted_unread:
            raise Pending(partial(read_aborted, segment), "find the aborted transactions of", segment)
        for one in segment.aborted:
            if one.last_offset >= offset and one.first_offset < upper:
                found.append(one)
            # All transactions with later markers begin at this offset or above.
            if one.last_stable_offset >= upper:
                return found
    return found


async def aborted_between(
    segments: Segments, start_offset: int, upper_offset: int, read_aborted: Callable[[Segment], Awaitable[None]]
) -> list[AbortedTransaction]:
    """Return the aborted transactions with records from `start_offset` to below `upper_offset`."""
    found: list[AbortedTransaction] = []
    for segment in list(segments.since(start_offset)):
        if segment.aborted_unread:
            await read_aborted(segment)
        found += (one for one in segment.aborted if one.last_offset >= start_offset and one.first_offset < upper_offset)
        if any(one.last_stable_offset >= upper_offset for one in segment.aborted):
            break
    return found


def _upper_offset(offset: int, data: Buffer | FileSlice) -> int | None:
    """Return the offset after the last batch in `data`, or None if no batch in it holds records of a transaction."""
    if isinstance(data, FileSlice):
        headers, position, end = Headers(data.file, data.offset + data.size), data.offset, data.offset + data.size
    else:
        headers, position, end = Headers.of(data), 0, len(data)
    transactional, upper = False, offset
    while position < end:
        _, size, last_offset = headers.at(position)
        transactional |= headers.is_transactional_data
        position, upper = position + size, last_offset + 1
    return upper if transactional else None
