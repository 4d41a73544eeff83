"""The search for the first record of a stored batch with a timestamp or a later one.

No other read decompresses batches.

1. The records may never have been validated, and an error would blame the consumer. The first offset of the batch is
   therefore the result if the batch is invalid, is too large when decompressed, has too many records, or lacks the
   largest timestamp of its header.
2. A small uncompressed batch is searched on the event loop. Any other batch is searched in a thread, one per log at a
   time, and the result is kept until the caller repeats its call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

import trio

from pykbroker.storage.files.errors import Pending
from pykbroker.world.off_loop import OffLoop
from wire.errors import DecodeError
from wire.records.batch import CODEC_MASK, Batch
from wire.records.compression import decompress
from wire.records.zigzag import read_varint, read_varlong

AT_ONCE_BYTES_MAX = 16384
RECORDS_MAX = 100_000
"""The maximum number of records that are examined in one batch."""
KEPT_MAX = 64


class TimestampOffset(NamedTuple):
    """A record's timestamp in ms since 1970, its offset, and its leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


SearchKey = tuple[int, int, int, int, int]


class RecordTimes:
    """The timestamp searches in the batches of one log, and their results."""

    __slots__ = ("_found", "_off_loop", "_turn")

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop, self._turn = off_loop, trio.Lock()
        self._found: OrderedDict[SearchKey, TimestampOffset | None] = OrderedDict()

    def first_since(self, batch: Batch, timestamp: int, start_offset: int, bytes_max: int) -> TimestampOffset | None:
        """Return the first record of a batch from `start_offset` on with `timestamp` or a later one.

        Raise Pending if the batch must be decompressed in a thread first.
        """
        start_offset = max(start_offset, batch.base_offset)
        if batch.size <= AT_ONCE_BYTES_MAX and not batch.attributes & CODEC_MASK:
            return first_since(batch, timestamp, start_offset, bytes_max)
        key = (batch.base_offset, batch.leader_epoch, batch.crc, timestamp, start_offset)
        if key not in self._found:
            work = partial(self._open, key, batch, timestamp, start_offset, bytes_max)
            raise Pending(work, "look for a record of time", timestamp, "from offset", start_offset)
        return self._found[key]

    async def _open(self, key: SearchKey, batch: Batch, timestamp: int, start_offset: int, bytes_max: int) -> None:
        async with self._turn:
            if key not in self._found:
                self._found[key] = await self._off_loop(first_since, batch, timestamp, start_offset, bytes_max)
            self._found.move_to_end(key)
            if len(self._found) > KEPT_MAX:
                self._found.popitem(last=False)


def first_since(batch: Batch, timestamp: int, start_offset: int, bytes_max: int) -> TimestampOffset | None:
    """Return the first record of a batch from `start_offset` on with `timestamp` or a later one.

    According to its header, the batch has a record with such a timestamp, which may be before `start_offset`.
    `bytes_max` limits the decompressed size.
    """
    try:
        for offset, stamp in islice(stamps(batch, bytes_max), RECORDS_MAX):
            if stamp >= timestamp and offset >= start_offset:
                return TimestampOffset(stamp, offset, batch.leader_epoch)
    except DecodeError:
        pass
    else:
        is_after_start = start_offset > batch.base_offset and batch.count <= RECORDS_MAX
        if not batch.count or is_after_start or batch.max_timestamp < 0:  # -1 may stand for records before 1970
            return None
    return TimestampOffset(batch.max_timestamp, start_offset, batch.leader_epoch)


def stamps(batch: Batch, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, timestamp) of each record. Raise DecodeError if the batch is damaged or too large."""
    data, pos = bytes(decompress(batch.codec, batch.payload, bytes_max)), 0
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    try:
        for _ in range(batch.count):
            size, pos = read_varint(data, pos)
            following = pos + size
            timestamp_delta, pos = read_varlong(data, pos + 1)
            offset_delta, pos = read_varint(data, pos)
            if not pos <= following <= len(data) or not 0 <= offset_delta <= batch.last_offset_delta:
                raise DecodeError(f"record of offset delta {offset_delta} ends at byte {following} of {len(data)}")
            stamp = batch.base_timestamp + timestamp_delta if append_time is None else append_time
            yield batch.base_offset + offset_delta, stamp
            pos = following
    except IndexError:
        raise DecodeError(f"records cut off at {len(data)} bytes") from None
