"""Retention: the segments to delete because of `retention.ms`, `retention.bytes` or the log start offset."""

from __future__ import annotations

from itertools import takewhile

from pykbroker.storage.files.errors import patiently
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.segment import Segment
from pykbroker.storage.segments.segments import Segments


async def expired(
    opening: Opening, segments: Segments, log_start_offset: int, high_watermark: int, now_ms: int
) -> tuple[int, str]:
    """Return (the number of oldest segments to delete, the reason).

    If the number includes the active segment, the caller rolls it first. No segment above the high watermark is
    deleted. The age of a segment is measured by the timestamps of its records, or by the last change of its file if no
    record has one.
    """
    every, config = segments.every(), opening.config
    if every[-1].size == 0:
        every.pop()
    below = sum(1 for _ in takewhile(lambda one: one.next_offset <= high_watermark, every))
    reasons = {"below the log start offset": sum(one.next_offset <= log_start_offset for one in segments.sealed)}
    if "delete" in config.cleanup_policy:
        reasons["retention.bytes"] = _too_much([one.size for one in every], config.retention_bytes)
        reasons["retention.ms"] = await _too_old(opening, every[:below], now_ms)
    why = max(reasons, key=lambda reason: reasons[reason])
    return min(reasons[why], below), why


def _too_much(sizes: list[int], retention_bytes: int) -> int:
    excess, count = sum(sizes) - retention_bytes, 0
    if retention_bytes < 0:
        return 0
    while count < len(sizes) and excess >= sizes[count]:
        excess -= sizes[count]
        count += 1
    return count


async def _too_old(opening: Opening, segments: list[Segment], now_ms: int) -> int:
    retention_ms = opening.config.retention_ms
    if retention_ms < 0:
        return 0
    count = 0
    for at, segment in enumerate(segments):
        if not segment.size:
            continue  # compaction left this segment empty: it is deleted together with the next one
        await patiently(segment.require_date)
        if now_ms - opening.largest_timestamp(segment) <= retention_ms:
            break
        count = at + 1
    return count
