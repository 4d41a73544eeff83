"""The intake of a producer: it checks records, selects their partitions, and appends them to the accumulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykbroker.core.producer.accumulator import RecordAccumulator
from pykbroker.core.producer.batch import ProducerBatch, record_bytes_max
from pykbroker.core.producer.buffer_pool import MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import RecordTooLarge, UnknownPartition
from pykbroker.core.producer.murmur2 import partition_of_key
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.producer.sticky_partition import StickyPartition
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import HEADER_BYTES

QUEUE_EXCESS_MAX = 2
"""The number of batches by which the queue of a partition may exceed the shortest one for a call to visit it."""


class TopicIntake:
    """The partitions of one topic, and the one that the next record without a key goes to.

    If `waiting` returns the number of batches that wait for a partition, those with few are preferred (KIP-794).
    """

    __slots__ = ("_placed", "_sticky", "_waiting", "available", "batch", "name", "partitions")

    def __init__(
        self, name: str, sticky: StickyPartition | None, waiting: Callable[[TopicPartition], int] | None
    ) -> None:
        self.name, self._sticky, self._waiting = name, sticky, waiting
        self._placed = 0
        """The number of records that were placed in turn, without a sticky partition."""
        self.batch: ProducerBatch | None = None
        """The batch that has the newest record without a deciding key. It has at least one record."""
        self.partitions: Sequence[TopicPartition] = ()
        self.available: Sequence[int] = ()
        """The partitions with a known leader."""

    def update(self, partitions: int, available: Sequence[int]) -> None:
        """Set the number of partitions, and the indexes of those with a known leader."""
        self.available = available
        if partitions != len(self.partitions):
            self.partitions = [TopicPartition(self.name, index) for index in range(partitions)]

    def has(self, partition: int | None) -> bool:
        """Whether the topic has the partition. None stands for any partition."""
        return partition is None or 0 <= partition < len(self.partitions)

    def unvisited(self, visited: set[int]) -> Sequence[int]:
        """Return the partitions that a call has not visited in its round. After the last one, begin another round.

        Each partition gets one batch of a call in each round. If each batch went to a partition that is drawn from all,
        the few large batches of a call would leave out some partitions.
        """
        choice = self.available or range(len(self.partitions))
        found = [index for index in choice if index not in visited] if visited else choice
        if not found:
            visited.clear()
        return found or choice

    def next_partition(self, size: int, visited: set[int] | None = None) -> int:
        """Return the partition of the next record whose key decides nothing, and which has at most `size` bytes.

        `visited` are the partitions that a call has visited in its round.
        """
        if self._sticky is None:
            choice = self.available or range(len(self.partitions))
            return choice[self._placed % len(choice)]
        batch = self.batch
        if batch is not None and (batch.is_full or batch.size + size > batch.bytes_max):
            # A batch that was sent before it was full counts with its size, so idle partitions change as rarely.
            self._sticky.appended(batch.size if batch.is_closed else batch.bytes_max)
            batch.close()
            self.batch = None
            if self._waiting is not None:
                waiting = {index: self._waiting(self.partitions[index]) for index in self.available}
                self._sticky.weigh(due_for_visit(waiting, visited) if visited else waiting, len(self.partitions))
        return self._sticky.current(len(self.partitions), self.unvisited(visited) if visited else self.available)

    def appended_to(self, batch: ProducerBatch) -> None:
        """Note that records without a deciding key went to this batch."""
        if self._sticky is None:
            self._placed += 1
        else:
            self.batch = batch


def due_for_visit(waiting: dict[int, int], visited: set[int]) -> dict[int, int]:
    """Return the partitions that a call may visit next in its round, with the number of batches that wait for each.

    A round passes over a partition whose queue is much longer than another, as that of a slow broker (KIP-794). Without
    any other partition, begin another round.
    """
    longest = min(waiting.values(), default=0) + QUEUE_EXCESS_MAX
    found = {index: count for index, count in waiting.items() if index not in visited and count <= longest}
    if not found:
        visited.clear()
    return found or waiting


class Intake:
    """The way of records into the accumulator. Methods are called under the accumulator's lock.

    `draw(n)` returns a random integer from 0 to n - 1.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        request_bytes_max: int,
        draw: Callable[[int], int],
        *,
        ignores_keys: bool = False,
        is_round_robin: bool = False,
        is_adaptive: bool = True,
    ) -> None:
        self._accumulator, self._request_bytes_max, self._draw = accumulator, request_bytes_max, draw
        self._ignores_keys, self._is_round_robin, self._is_adaptive = ignores_keys, is_round_robin, is_adaptive
        self.topics: dict[str, TopicIntake] = {}
        """The topics that have received a record."""

    def update(self, topic: str, partitions: int, available: Sequence[int]) -> TopicIntake:
        """Set the number of a topic's partitions, and the indexes of those with a known leader. Return the topic."""
        found = self.topics.get(topic)
        if found is None:
            sticky = StickyPartition(self._accumulator.settings.batch_bytes, self._draw)
            waiting = self._accumulator.waiting if self._is_adaptive else None
            found = self.topics[topic] = TopicIntake(topic, None if self._is_round_robin else sticky, waiting)
        found.update(partitions, available)
        return found

    def try_append(self, topic: TopicIntake, record: SerializedRecord) -> tuple[ProducerBatch, int] | None:
        """Append a record to an open batch. Return None if none has room, or if the topic lacks the partition."""
        _, value, key, partition, headers, timestamp = record
        if partition is not None and not topic.has(partition):
            return None
        if partition is not None or (key is not None and not self._ignores_keys):
            return self._accumulator.try_append(self._partition(topic, partition, key), record)
        batch = topic.batch
        index = None if batch is None else batch.try_append(key, value, headers, timestamp)
        return None if batch is None or index is None else (batch, index)

    def append(
        self, topic: TopicIntake, record: SerializedRecord, now_ms: float, ticket: MemoryTicket | None = None
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record to an open batch or a new one. Return None without memory for it, as the accumulator does.

        Raise RecordTooLarge if the record exceeds `max.request.size` or `buffer.memory`.
        """
        _, value, key, partition, headers, _ = record
        size = record_bytes_max(key, value, headers)
        self.check_size(size)
        appended = self._accumulator.append(self._partition(topic, partition, key, size), record, now_ms, ticket)
        if appended is not None and partition is None and (key is None or self._ignores_keys):
            topic.appended_to(appended[0])
        return appended

    def append_columns(
        self,
        topic: TopicIntake,
        partition: int | None,
        columns: Columns,
        start: int,
        now_ms: float,
        ticket: MemoryTicket | None = None,
    ) -> tuple[ProducerBatch, int, int] | None:
        """Append rows from `start` on to one batch. Return the batch, the index there, and the first row left.

        All rows go to the same partition. Return None without memory, as the accumulator does.
        """
        chosen = self._partition(topic, partition, None, columns.record_bytes_max(start), columns.visited)
        wanted = self.batch_bytes(topic, partition, columns, start)
        appended = self._accumulator.append_columns(chosen, columns, start, now_ms, ticket, wanted)
        if appended is not None and partition is None:
            topic.appended_to(appended[0])
            if not appended[1]:
                columns.visited.add(chosen.partition)
        return appended

    def batch_bytes(self, topic: TopicIntake, partition: int | None, columns: Columns, start: int) -> int:
        """Return the bytes of a batch that is opened for rows from `start` on.

        The batch has room for all rows, up to the limit of the accumulator. If the rows may go to any partition, it has
        room for its share of them, so that each partition without a batch in the present round gets as much.
        """
        least, most = columns.record_bytes_max(start), self._accumulator.bytes_of_columns(topic.name)
        if most <= self._accumulator.settings.batch_bytes:
            return least
        batches = 1 if partition is not None else len(topic.unvisited(columns.visited))
        return max(least, min(columns.batch_bytes_max(start, batches), most))

    def rows_by_partition(self, topic: TopicIntake, keys: Sequence[bytes | None]) -> dict[int | None, list[int]]:
        """Return the rows of each partition by their keys, and under None those that may go to any partition."""
        rows: dict[int | None, list[int]] = {}
        count = len(topic.partitions)
        for row, key in enumerate(keys):
            chosen = None if key is None or self._ignores_keys else partition_of_key(key, count)
            rows.setdefault(chosen, []).append(row)
        return rows

    def check_size(self, size: int, row: int | None = None) -> None:
        """Raise RecordTooLarge if a batch of one record of this size can never be sent. `row` is that of columns."""
        limits = {"max_request_size": self._request_bytes_max, "buffer_memory": self._accumulator.pool.bytes_max}
        for name, limit in limits.items():
            if size > limit:
                record = "a record" if row is None else f"row {row}"
                raise RecordTooLarge(f"{record} of {size} bytes exceeds {name}, which is {limit}", row)

    def _partition(
        self,
        topic: TopicIntake,
        partition: int | None,
        key: bytes | None,
        size: int = 0,
        visited: set[int] | None = None,
    ) -> TopicPartition:
        if partition is None:
            if key is None or self._ignores_keys:
                # `size` is that of a batch with this record alone.
                return topic.partitions[topic.next_partition(size - HEADER_BYTES, visited)]
            return topic.partitions[partition_of_key(key, len(topic.partitions))]
        if not topic.has(partition):
            raise UnknownPartition(
                f"topic '{topic.name}' has no partition {partition}: it has 0 to {len(topic.partitions) - 1}"
            )
        return topic.partitions[partition]
