"""Who has which partitions: sets of partitions by topic id, and what two of them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

TopicIdPartition = tuple[bytes, int]
"""A partition: its topic's id, and its index."""
Assignment = Mapping[bytes, frozenset[int]]
"""By topic id; a topic without partitions is not in it."""
NOTHING: Assignment = {}


class TopicPartitions(Protocol):
    """As messages and records have them."""

    topic_id: bytes
    partitions: list[int]


def of(listed: Iterable[TopicPartitions]) -> Assignment:
    """From a message or a record."""
    return {bytes(one.topic_id): frozenset(one.partitions) for one in listed if one.partitions}


def common(left: Assignment, right: Assignment) -> Assignment:
    """What is in both."""
    return _full({topic: partitions & right.get(topic, frozenset()) for topic, partitions in left.items()})


def without(left: Assignment, right: Assignment) -> Assignment:
    """What is in the first one only."""
    return _full({topic: partitions - right.get(topic, frozenset()) for topic, partitions in left.items()})


def joined(left: Assignment, right: Assignment) -> Assignment:
    """What is in one of them."""
    return {topic: left.get(topic, frozenset()) | right.get(topic, frozenset()) for topic in {**left, **right}}


def each(assignment: Assignment) -> Iterator[TopicIdPartition]:
    """Every partition, in order."""
    for topic, partitions in assignment.items():
        for partition in sorted(partitions):
            yield topic, partition


def _full(assignment: dict[bytes, frozenset[int]]) -> Assignment:
    return {topic: partitions for topic, partitions in assignment.items() if partitions}
