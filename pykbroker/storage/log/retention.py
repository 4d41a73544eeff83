"""Retention: the segments to delete because of `retention.ms`, `retention.bytes` or the log start offset."""

from __future__ import annotations

from itertools import takewhile

from pykbroker.storage.files.errors import patiently
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.segments import Segments


async def expired(
    segments: Segments, config: LogConfig, log_start_offset: int, high_watermark: int, now_ms: int
) -> tuple[int, str]:
    """Return (the number of oldest segments to delete, the reason).

    If the number includes the active segment, the caller rolls it first. No segment above the high watermark is
    deleted. The age of a segment is measured by the timestamps of its records. A segment without timestamps is never
    deleted because of its age.
    """
    every = segments.every()
    if every[-1].size == 0:
        every.pop()
    below = sum(1 for _ in takewhile(lambda one: one.next_offset <= high_watermark, every))
    reasons = {"below the log start offset": sum(one.next_offset <= log_start_offset for one in segments.sealed)}
    if "delete" in config.cleanup_policy:
        reasons["retention.bytes"] = _too_much([one.size for one in every], config.retention_bytes)
        reasons["retention.ms, by the timestamps of the records"] = await _too_old(segments, below, config, now_ms)
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


async def _too_old(segments: Segments, below: int, config: LogConfig, now_ms: int) -> int:
    if config.retention_ms < 0:
        return 0
    count = 0
    for at, segment in enumerate(segments.every()[:below]):
        if not segment.size:
            continue  # compaction left this segment empty: it is deleted together with the next one
        await patiently(segment.require_date)
        if segment.max_timestamp < 0 or now_ms - segment.max_timestamp <= config.retention_ms:
            break
        count = at + 1
    return count
