"""The records that a poll has taken from the buffer, and that the user has not received yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition


class UnreadRecords:
    """The next records of an iteration, and the columns behind them. They do not count as processed.

    Any thread may pop records. The trio thread does the rest.
    """

    def __init__(self) -> None:
        self.records: deque[Any] = deque()
        self.parts: list[FetchedColumns] = []
        """The columns that a poll for another thread has left there."""

    def offsets(self, positions: dict[TopicPartition, CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions, moved back to the first unread record of each partition."""
        for part in reversed(self.parts):
            if part.partition in positions:
                positions[part.partition] = CommittedOffset(part.offsets[0], part.leader_epoch)
        for record in reversed(list(self.records)):
            partition = TopicPartition(record.topic, record.partition)
            if partition in positions:
                positions[partition] = CommittedOffset(record.offset, record.leader_epoch)
        return positions

    def first(self, partition: TopicPartition) -> int | None:
        """Return the offset of the first unread record of a partition, or None without one."""
        found = (each.offset for each in list(self.records) if (each.topic, each.partition) == partition)
        columns = (part.offsets[0] for part in self.parts if part.partition == partition)
        return next(found, next(columns, None))

    def take(self, records_max: int, among: Collection[TopicPartition] = ()) -> list[Any]:
        """Return up to `records_max` records of the iteration for a poll, of all partitions or `among` some."""
        if not among:
            return [self.records.popleft() for _ in range(min(records_max, len(self.records)))]
        found = [each for each in self.records if (each.topic, each.partition) in among][:records_max]
        taken = set(map(id, found))
        self.records = deque(each for each in self.records if id(each) not in taken)
        return found

    def has_parts(self, among: Collection[TopicPartition]) -> bool:
        """Whether there are columns, of any partition or `among` some."""
        return any(part.partition in among for part in self.parts) if among else bool(self.parts)

    def take_parts(self, records_max: int, among: Collection[TopicPartition] = ()) -> list[FetchedColumns]:
        """Return up to `records_max` records of the columns, of all partitions or `among` some.

        An earlier poll may have left more.
        """
        found: list[FetchedColumns] = []
        left: list[FetchedColumns] = []
        for part in self.parts:
            if records_max <= 0 or (among and part.partition not in among):
                left.append(part)
                continue
            if len(part) > records_max:
                left.append(part.slice(records_max, len(part)))
                part = part.slice(0, records_max)
            records_max -= len(part)
            found.append(part)
        self.parts = left
        return found

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of some partitions, whose position has changed."""
        self._retain(lambda partition: partition not in partitions)

    def keep_only(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of all other partitions."""
        self._retain(lambda partition: partition in partitions)

    def _retain(self, retains: Callable[[tuple[str, int]], bool]) -> None:
        if self.records:
            self.records = deque(each for each in self.records if retains((each.topic, each.partition)))
        self.parts = [part for part in self.parts if retains(part.partition)]
