"""Findings for tests of the text and of the page."""

from __future__ import annotations

from typing import Any

from pykbroker.pipeline.audit.findings import (
    AuditFindings,
    KeyCount,
    KeyShare,
    OffsetStrip,
    PartitionComparison,
    PartitionProfile,
    Side,
    SideProfile,
    SizeCount,
    TimeSlot,
    TopicProfile,
)

NOON_MS = 1_764_000_000_000


def partition(index: int, records: int, **changes: Any) -> PartitionProfile:
    """Return the profile of a partition with records of 10 bytes, a second apart, from offset 0 on."""
    figures = {
        "partition": index,
        "records": records,
        "first_offset": 0,
        "last_offset": records - 1,
        "missing_offsets": 0,
        "gaps": 0,
        "duplicates": 0,
        "key_bytes": 2 * records,
        "value_bytes": 7 * records,
        "header_bytes": records,
        "value_bytes_max": 9,
        "null_keys": 0,
        "null_values": 0,
        "low_ms": NOON_MS,
        "high_ms": NOON_MS + 1000 * (records - 1),
        "steps_back": 0,
        "lateness_ms_max": 0,
    }
    return PartitionProfile(**{**figures, **changes})


def topic(name: str, *partitions: PartitionProfile) -> TopicProfile:
    """Return the profile of a topic."""
    records = sum(each.records for each in partitions)
    slots = [TimeSlot(NOON_MS + 60_000 * i, 60_000, 5 + i % 3, 50) for i in range(30) if i != 7]
    keys = [KeyCount("hot", records // 2), KeyCount("<b>cold</b>", 1)]
    curve = [KeyShare(0, 0), KeyShare(1, records // 2), KeyShare(records - 1, records)]
    return TopicProfile(name, list(partitions), slots, keys, records - 1, records // 2, curve, [SizeCount(4, records)])


def side(kind: Side, *topics: TopicProfile) -> SideProfile:
    """Return the profile of a side."""
    return SideProfile(kind, "127.0.0.1:9092" if kind == "topic" else "/lake & co", list(topics))


def findings(*sides: SideProfile, losses: list[str] | None = None, remarks: list[str] | None = None) -> AuditFindings:
    """Return the findings about sides, with a comparison if there are two."""
    partitions = [(each.topic, one.partition, one.records) for each in sides[0].topics for one in each.partitions]
    comparisons = [PartitionComparison(name, index, 0, count, both=count) for name, index, count in partitions]
    strips = [OffsetStrip(name, index, 0, 2, {each.side: [2] * 9 for each in sides}) for name, index, _ in partitions]
    compared = comparisons if len(sides) > 1 else []
    return AuditFindings(NOON_MS, "cluster", list(sides), compared, strips, remarks or [], losses or [])
