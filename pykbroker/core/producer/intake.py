"""The intake of a producer: it checks records, selects their partitions, and appends them to the accumulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykbroker.core.producer.accumulator import RecordAccumulator
from pykbroker.core.producer.batch import ProducerBatch, record_bytes_max
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import RecordTooLarge, UnknownPartition
from pykbroker.core.producer.murmur2 import partition_of_key
from pykbroker.core.producer.sticky_partition import StickyPartition
from pykbroker.core.topic_partition import TopicPartition
from wire.records.record import Headers


class TopicIntake:
    """The partitions of one topic, and the one that the next record without a key goes to."""

    __slots__ = ("_available", "_placed", "_sticky", "name", "partitions")

    def __init__(self, name: str, sticky: StickyPartition | None) -> None:
        self.name, self._sticky = name, sticky
        self._placed = 0
        """The number of records that were placed in turn, without a sticky partition."""
        self.partitions: Sequence[TopicPartition] = ()
        self._available: Sequence[int] = ()

    def update(self, partitions: int, available: Sequence[int]) -> None:
        """Set the number of partitions, and the indexes of those with a known leader."""
        self._available = available
        if partitions != len(self.partitions):
            self.partitions = [TopicPartition(self.name, index) for index in range(partitions)]

    def next_partition(self) -> int:
        """Return the partition of the next record whose key decides nothing."""
        if self._sticky is not None:
            return self._sticky.current(len(self.partitions), self._available)
        choice = self._available or range(len(self.partitions))
        return choice[self._placed % len(choice)]

    def appended(self, size: int, *, may_switch: bool) -> None:
        """Note that `size` bytes went to the partition that `next_partition` returned."""
        if self._sticky is None:
            self._placed += 1
        else:
            self._sticky.appended(size, may_switch=may_switch)

    def weigh(self, accumulator: RecordAccumulator, is_available: Callable[[TopicPartition], bool]) -> None:
        """Prefer partitions for which few batches wait (KIP-794)."""
        if self._sticky is not None:
            waiting = {
                partition.partition: accumulator.waiting(partition)
                for partition in self.partitions
                if is_available(partition)
            }
            self._sticky.weigh(waiting, len(self.partitions))


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
    ) -> None:
        self._accumulator, self._request_bytes_max, self._draw = accumulator, request_bytes_max, draw
        self._ignores_keys, self._is_round_robin = ignores_keys, is_round_robin
        self.topics: dict[str, TopicIntake] = {}
        """The topics that have received a record."""

    def update(self, topic: str, partitions: int, available: Sequence[int]) -> TopicIntake:
        """Set the number of a topic's partitions, and the indexes of those with a known leader. Return the topic."""
        found = self.topics.get(topic)
        if found is None:
            sticky = StickyPartition(self._accumulator.settings.batch_bytes, self._draw)
            found = self.topics[topic] = TopicIntake(topic, None if self._is_round_robin else sticky)
        found.update(partitions, available)
        return found

    def try_append(
        self,
        topic: TopicIntake,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record to an open batch. Return None if there is none with room.

        Raise UnknownPartition if the topic lacks the partition.
        """
        chosen = self._partition(topic, partition, key)
        appended = self._accumulator.try_append(chosen, key, value, headers, timestamp)
        if appended is not None and partition is None and (key is None or self._ignores_keys):
            size = (0 if value is None else len(value)) + (0 if key is None else len(key))
            topic.appended(size, may_switch=appended[0].is_full)
        return appended

    def append(
        self,
        topic: TopicIntake,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        now_ms: float,
        granted: int = 0,
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record to an open batch or a new one. Return None without memory for it, as the accumulator does.

        Raise RecordTooLarge if the record exceeds `max.request.size` or `buffer.memory`.
        """
        self.check_size(record_bytes_max(key, value, headers))
        chosen = self._partition(topic, partition, key)
        appended = self._accumulator.append(chosen, key, value, headers, timestamp, now_ms, granted)
        if appended is not None and partition is None and (key is None or self._ignores_keys):
            size = (0 if value is None else len(value)) + (0 if key is None else len(key))
            topic.appended(size, may_switch=appended[0].is_full)
        return appended

    def append_columns(
        self, topic: TopicIntake, partition: int | None, columns: Columns, start: int, now_ms: float, granted: int = 0
    ) -> tuple[ProducerBatch, int, int] | None:
        """Append rows from `start` on to one batch. Return the batch, the index there, and the first row left.

        All rows go to the same partition. Return None without memory, as the accumulator does.
        """
        chosen = self._partition(topic, partition, None)
        appended = self._accumulator.append_columns(chosen, columns, start, now_ms, granted)
        if appended is not None and partition is None:
            batch, _, end = appended
            topic.appended(columns.bytes_of(start, end), may_switch=batch.is_full or end < len(columns))
        return appended

    def rows_by_partition(self, topic: TopicIntake, keys: Sequence[bytes | None]) -> dict[int | None, list[int]]:
        """Return the rows of each partition by their keys, and under None those that may go to any partition."""
        rows: dict[int | None, list[int]] = {}
        count = len(topic.partitions)
        for row, key in enumerate(keys):
            chosen = None if key is None or self._ignores_keys else partition_of_key(key, count)
            rows.setdefault(chosen, []).append(row)
        return rows

    def check_size(self, size: int) -> None:
        """Raise RecordTooLarge if a batch of one record of this size can never be sent."""
        if size > self._request_bytes_max:
            raise RecordTooLarge(
                f"a record of {size} bytes exceeds max_request_size, which is {self._request_bytes_max}"
            )
        if size > self._accumulator.pool.bytes_max:
            raise RecordTooLarge(
                f"a record of {size} bytes exceeds buffer_memory, which is {self._accumulator.pool.bytes_max}"
            )

    def _partition(self, topic: TopicIntake, partition: int | None, key: bytes | None) -> TopicPartition:
        if partition is None:
            if key is None or self._ignores_keys:
                return topic.partitions[topic.next_partition()]
            return topic.partitions[partition_of_key(key, len(topic.partitions))]
        if not 0 <= partition < len(topic.partitions):
            raise UnknownPartition(
                f"topic '{topic.name}' has no partition {partition}: it has 0 to {len(topic.partitions) - 1}"
            )
        return topic.partitions[partition]
