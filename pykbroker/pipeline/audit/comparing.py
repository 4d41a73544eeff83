"""The comparison of an archive with its topics, segment by segment.

Most segments are equal on both sides, or on one side alone. Their figures are enough, and only the offsets of the other
segments are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.audit.findings import Measured, PartitionComparison
from pykbroker.pipeline.cluster import LogEnds
from pykbroker.pipeline.errors import PipelineError

COUNTS = ("both", "missing", "not_archived", "deleted", "only_archived")


class OpenSegment(NamedTuple):
    """A segment whose offsets must be compared one by one. The columns are those of `measures.compared`."""

    topic: str
    partition: int
    segment: int
    archive_last: int | None
    topic_first: int | None


OPEN_SEGMENT = "topic string, partition int, segment bigint, archive_last bigint, topic_first bigint"
"""The columns of OpenSegment, as a DDL text."""


def settled(segments: Iterable[Measured]) -> tuple[list[dict[str, Any]], list[OpenSegment]]:
    """Return the comparisons of the segments that need no further look, and the other segments."""
    by_segment: dict[tuple[str, int, int], dict[str, Measured]] = {}
    for row in segments:
        by_segment.setdefault((row["topic"], row["partition"], row["segment"]), {})[row["side"]] = row
    limits = _limits(by_segment)
    found, left = [], []
    for (topic, partition, segment), sides in sorted(by_segment.items()):
        archive_last, topic_first = limits[topic, partition]
        kind = _kind(sides, archive_last, topic_first)
        if kind is None:
            left.append(OpenSegment(topic, partition, segment, archive_last, topic_first))
            continue
        row = next(iter(sides.values()))
        counts: dict[str, Any] = {"topic": topic, "partition": partition, kind: row["records"] - row["duplicates"]}
        found.append({**counts, "first_missing": row["first_offset"] if kind == "missing" else None})
    return found, left


def _limits(
    by_segment: Mapping[tuple[str, int, int], Mapping[str, Measured]],
) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """Return the last archived offset and the first offset of the topic, for each partition."""
    lasts: dict[tuple[str, int], int] = {}
    firsts: dict[tuple[str, int], int] = {}
    for (topic, index, _), sides in by_segment.items():
        key = topic, index
        if "archive" in sides:
            lasts[key] = max(lasts.get(key, -1), sides["archive"]["last_offset"])
        if "topic" in sides:
            first = sides["topic"]["first_offset"]
            firsts[key] = min(firsts.get(key, first), first)
    return {(topic, index): (lasts.get((topic, index)), firsts.get((topic, index))) for topic, index, _ in by_segment}


def _kind(sides: Mapping[str, Measured], archive_last: int | None, topic_first: int | None) -> str | None:
    """Return the kind of all offsets of a segment, or None if their kinds differ or are unknown."""
    one, two = sides.get("topic"), sides.get("archive")
    if one is not None and two is not None:
        alike = all(one[name] == two[name] for name in ("records", "first_offset", "last_offset", "offsets_hash"))
        return "both" if alike and not one["duplicates"] and not two["duplicates"] else None
    if one is not None:
        if archive_last is None or one["first_offset"] > archive_last:
            return "not_archived"
        return "missing" if one["last_offset"] <= archive_last else None
    if two is not None and topic_first is not None and two["last_offset"] >= topic_first:
        return "only_archived" if two["first_offset"] >= topic_first else None
    return "deleted"


def comparisons(rows: Iterable[Measured], ends: LogEnds) -> list[PartitionComparison]:
    """Return the sums for all partitions of the topics. Raise PipelineError if the archive is of another cluster."""
    sums: dict[TopicPartition, dict[str, Any]] = {key: dict.fromkeys(COUNTS, 0) for key in ends.next}
    firsts: dict[TopicPartition, int] = {}
    for row in rows:
        key = TopicPartition(row["topic"], row["partition"])
        if key not in sums:
            raise PipelineError(f"the archive has {key}, which the cluster lacks: audit it with --archive-only")
        for name in COUNTS:
            sums[key][name] += row.get(name, 0)
        if row["first_missing"] is not None:
            firsts[key] = min(firsts.get(key, row["first_missing"]), row["first_missing"])
    return [
        PartitionComparison(*key, ends.first[key], ends.next[key], first_missing=firsts.get(key), **sums[key])
        for key in sorted(sums)
    ]
