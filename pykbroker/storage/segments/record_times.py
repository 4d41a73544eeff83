"""The first record of a stored batch that is as young as a time: the one question for which batches must be opened.

1. What is inside was never looked at, and the reader is not to blame for it. A batch that does not parse, yields too
   much, has too many records or none as young as its header says is answered as a whole.
2. A small batch that is not compressed is walked at once. Any other is opened off the loop, one of a log at a time,
   and what was found is kept for the caller to ask again.
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
"""Looked at in one batch."""
KEPT_MAX = 64


class TimestampOffset(NamedTuple):
    """A record: ms since 1970, its offset, and the leader epoch that wrote it."""

    timestamp: int
    offset: int
    leader_epoch: int


SearchKey = tuple[int, int, int, int, int]


class RecordTimes:
    """What was asked of the batches of one log, and what they answered."""

    __slots__ = ("_found", "_off_loop", "_turn")

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop, self._turn = off_loop, trio.Lock()
        self._found: OrderedDict[SearchKey, TimestampOffset | None] = OrderedDict()

    def first_since(self, batch: Batch, timestamp: int, start_offset: int, bytes_max: int) -> TimestampOffset | None:
        """As `first_since` below. Pending: the batch must be opened off the loop."""
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
    """The first record from `start_offset`, which is not below the batch, that is as young as `timestamp`.

    The header says that there is one, before `start_offset` maybe. `bytes_max`: what the batch may decompress to.
    """
    try:
        for offset, stamp in islice(stamps(batch, bytes_max), RECORDS_MAX):
            if stamp >= timestamp and offset >= start_offset:
                return TimestampOffset(stamp, offset, batch.leader_epoch)
    except DecodeError:
        pass
    else:
        if not batch.count or (start_offset > batch.base_offset and batch.count <= RECORDS_MAX):
            return None
    return TimestampOffset(batch.max_timestamp, start_offset, batch.leader_epoch)


def stamps(batch: Batch, bytes_max: int) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each record; the rest of it is skipped. DecodeError: damaged, or too large."""
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
