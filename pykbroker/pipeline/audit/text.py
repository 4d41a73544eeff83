"""The findings of an audit as lines for a terminal, and as the figures of its JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.pipeline.audit.findings import AuditFindings, PartitionProfile, SideProfile, TopicProfile
from pykbroker.pipeline.quantities import duration, share, short, size

COMPARED = ("partition", "in both", "missing", "not archived", "deleted in topic", "only archived")
COLUMNS = ("partition", "records", "bytes", "offsets", "missing", "twice", "no key", "no value", "late by")


def figures(findings: AuditFindings) -> dict[str, Any]:
    """Return the findings as plain data, with the sums of each topic. Losses are left to the report."""
    found: dict[str, Any] = msgspec.to_builtins(findings)
    del found["losses"]
    for side, plain_side in zip(findings.sides, found["sides"], strict=True):
        for topic, plain in zip(side.topics, plain_side["topics"], strict=True):
            plain |= {"records": topic.records, "bytes": topic.bytes, "records_per_s": topic.records_per_s}
    return found


def audit_lines(findings: AuditFindings) -> list[str]:
    """Return a table for each topic of each side, the comparison, and the remarks."""
    lines: list[str] = []
    for side in findings.sides:
        for topic in side.topics:
            lines += _topic_lines(side, topic)
    if findings.comparisons:
        rows: list[tuple[str, ...]] = [COMPARED]
        rows += [
            (
                f"{each.topic}-{each.partition}",
                *(f"{n:,}" for n in (each.both, each.missing, each.not_archived, each.deleted, each.only_archived)),
            )
            for each in findings.comparisons
        ]
        lines += ["  archive against topic:", *aligned(rows)]
    return [*lines, *(f"  {each}" for each in findings.remarks)]


def _topic_lines(side: SideProfile, topic: TopicProfile) -> list[str]:
    rate = "" if topic.records_per_s is None else f", {short(topic.records_per_s)} records/s"
    keys = f"{topic.keys:,} keys" if topic.keys else "no keys"
    head = f"  {side.side} {topic.topic}: {topic.records:,} records, {size(topic.bytes)}{rate}, {keys}"
    return [head, *aligned([COLUMNS, *map(_cells, topic.partitions)])]


def _cells(each: PartitionProfile) -> tuple[str, ...]:
    return (
        str(each.partition),
        f"{each.records:,}",
        size(each.bytes),
        f"{each.first_offset:,}..{each.last_offset:,}",
        f"{each.missing_offsets:,}",
        f"{each.duplicates:,}",
        share(each.null_keys, each.records),
        share(each.null_values, each.records),
        duration(each.lateness_ms_max),
    )


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows with columns of equal width, the first one left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "    "
        + "  ".join(
            f"{cell:<{width}}" if not i else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
