"""The identity of a partition: topic name and partition index."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition: the name of its topic, and its index. Its text is Kafka's, such as `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
