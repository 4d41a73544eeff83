"""The records that a job was to read and that the cluster no longer has, as sentences."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds, recreated_topics


def changed_topics(before: dict[str, str], now: ClusterFacts, topics: tuple[str, ...]) -> str:
    """Return a sentence about topics that were deleted or created again, or nothing."""
    if recreated := recreated_topics(before, now.topic_ids):
        return f"topic {', '.join(recreated)} was deleted and created again during the run"
    gone = sorted(name for name in topics if name not in now.topic_ids)
    return f"topic {', '.join(gone)} was deleted during the run: leave it out of --topics" if gone else ""


def lost_offsets(reached: Mapping[TopicPartition, int], ends: LogEnds) -> list[str]:
    """Return a sentence for each partition whose log has not the offset at which the next batch begins."""
    found = []
    for key, offset in sorted(reached.items()):
        if key not in ends.first:
            found.append(f"partition {key} is gone, which was read up to offset {offset}")
        elif ends.first[key] > offset:
            first = ends.first[key]
            found.append(f"{key}: the offsets {offset} to {first - 1} are deleted, and the log begins at {first}")
        elif ends.next[key] < offset:
            found.append(f"{key}: the log ends at offset {ends.next[key]}, and was read up to offset {offset}")
    return found
