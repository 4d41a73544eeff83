"""The records that a poll has returned to an iteration, and that the iteration has not yielded yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.topic_partition import TopicPartition


class UnreadRecords:
    """The records for the next steps of an iteration. They do not count as processed until they are yielded."""

    def __init__(self) -> None:
        self.records: deque[Any] = deque()

    def offsets(self, positions: dict[TopicPartition, CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions, moved back to the first unread record of each partition."""
        for record in reversed(self.records):
            partition = TopicPartition(record.topic, record.partition)
            if partition in positions:
                positions[partition] = CommittedOffset(record.offset, record.leader_epoch)
        return positions

    def first(self, partition: TopicPartition) -> int | None:
        """Return the offset of the first unread record of a partition, or None without one."""
        return next((each.offset for each in self.records if (each.topic, each.partition) == partition), None)

    def take(self, records_max: int) -> list[Any]:
        """Return up to `records_max` records for a poll."""
        return [self.records.popleft() for _ in range(min(records_max, len(self.records)))]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of some partitions, whose position has changed."""
        self._retain(lambda partition: partition not in partitions)

    def keep_only(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of all other partitions."""
        self._retain(lambda partition: partition in partitions)

    def _retain(self, wanted: Any) -> None:
        if self.records:
            self.records = deque(each for each in self.records if wanted((each.topic, each.partition)))
