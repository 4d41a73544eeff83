"""Assignments: sets of partitions by topic id, and operations on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from pykbroker.core.topic_partition import TopicIdPartition

Assignment = Mapping[bytes, frozenset[int]]
"""Partition indexes by topic id. A topic without partitions has no entry."""
NOTHING: Assignment = {}


class TopicPartitions(Protocol):
    """A topic's partitions in a message or record."""

    topic_id: bytes
    partitions: list[int]


def of(listed: Iterable[TopicPartitions]) -> Assignment:
    """Return the assignment in a message or record."""
    return {bytes(one.topic_id): frozenset(one.partitions) for one in listed if one.partitions}


def common(left: Assignment, right: Assignment) -> Assignment:
    """Return the partitions in both assignments."""
    return _full({topic: partitions & right.get(topic, frozenset()) for topic, partitions in left.items()})


def without(left: Assignment, right: Assignment) -> Assignment:
    """Return the partitions of `left` that are not in `right`."""
    return _full({topic: partitions - right.get(topic, frozenset()) for topic, partitions in left.items()})


def joined(left: Assignment, right: Assignment) -> Assignment:
    """Return the partitions in either assignment."""
    return {topic: left.get(topic, frozenset()) | right.get(topic, frozenset()) for topic in {**left, **right}}


def each(assignment: Assignment) -> Iterator[TopicIdPartition]:
    """Return every partition. The partitions of a topic are in order."""
    for topic, partitions in assignment.items():
        for partition in sorted(partitions):
            yield topic, partition


def _full(assignment: dict[bytes, frozenset[int]]) -> Assignment:
    return {topic: partitions for topic, partitions in assignment.items() if partitions}
