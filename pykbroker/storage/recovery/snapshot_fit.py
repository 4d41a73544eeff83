"""The check of a producer snapshot against its log. The CRC does not detect a snapshot of another partition or time.

A snapshot is compared with two sets of batches before its offset, in one segment: the last few batches, and the newest
batches that the snapshot names. A snapshot with no producer of these batches is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pykbroker.core.log.producers import Producers, ProducerState
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.files.reading import read_file
from pykbroker.storage.recovery.producer_snapshot import CorruptSnapshot
from pykbroker.storage.segments.loading import attempt
from pykbroker.storage.segments.segment import Segment
from pykbroker.storage.segments.walk import Walk
from wire.records.batch import HEADER, HEADER_BYTES, Batch

LOOKED_UP_MAX = 3
"""The number of a snapshot's batches that are looked up in the log."""
WINDOW_BYTES = 16384
"""The bytes of the log, before the offset of a snapshot, that are compared with it."""


async def require_fit(producers: Producers, segments: Sequence[Segment], taken: int) -> None:
    """Raise CorruptSnapshot if the producers contradict the log before offset `taken`.

    If the log cannot be read, the snapshot is trusted.
    """
    ends = {one.batches[-1].last_offset: one.producer_id for one in producers.entries() if one.batches}
    if max((*ends, *(one.txn_first_offset for one in producers.entries())), default=-1) >= taken:
        raise CorruptSnapshot("the snapshot has later offsets")
    before = [segment for segment in segments if segment.base_offset < taken][-1:]
    for segment in (one for one in before if one.size):
        try:
            await patiently(segment.require_loaded)
            for offset in sorted(filter(segment.base_offset.__le__, ends), reverse=True)[:LOOKED_UP_MAX]:
                await _require_end(segment, offset, ends[offset])
            await _require_newest(segment, producers, taken)
        except (CorruptLog, OSError):
            return


async def _require_end(segment: Segment, offset: int, producer_id: int) -> None:
    """Raise CorruptSnapshot unless a batch of this producer ends at `offset`, or compaction has removed that batch."""
    position = await _position_of(segment, offset)
    if position >= segment.size:
        return
    header = HEADER.unpack(await read_file(segment.file, position, HEADER_BYTES))
    base, delta, found_id = header[0], header[6], header[9]
    if base <= offset and (base + delta, found_id) != (offset, producer_id):
        raise CorruptSnapshot(f"no batch of producer {producer_id} ends at offset {offset}")


async def _position_of(segment: Segment, offset: int) -> int:
    return await patiently(partial(attempt, segment, lambda: segment.position_of(offset, segment.headers())))


async def _require_newest(segment: Segment, producers: Producers, taken: int) -> None:
    """Raise CorruptSnapshot if the producers are older than the last batches before offset `taken`."""
    end = segment.size if taken >= segment.next_offset else await _position_of(segment, taken)
    entry = segment.index.find_position(end - WINDOW_BYTES)
    walk = Walk(segment.file, entry[1] if entry else 0, end, segment.base_offset, segment.base_offset, check_crc=False)
    newest: dict[int, Batch] = {}
    while found := await walk.more():
        newest |= {batch.producer_id: batch for _, batch in found}
    for producer_id, batch in newest.items():
        if not _knows(producers.get(producer_id), batch):
            raise CorruptSnapshot(f"it lacks the batch of producer {producer_id} at offset {batch.base_offset}")


def _knows(producer: ProducerState | None, newest: Batch) -> bool:
    """Whether `producer` may be the producer's state after its batch `newest`.

    A state without an open transaction may also have expired (None).
    """
    if producer is None:
        return newest.is_control or not newest.is_transactional
    if newest.is_control:
        return not 0 <= producer.txn_first_offset < newest.base_offset
    return bool(producer.batches) and producer.batches[-1].last_offset >= newest.last_offset
