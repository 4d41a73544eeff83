"""The name of a partition: the key of almost everything that a broker keeps."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition by the name of its topic and its index. Printed as Kafka does: `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
