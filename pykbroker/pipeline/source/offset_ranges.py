"""The ranges of offsets that the tasks of a query read, and their division into more tasks.

The division is that of Spark's Kafka connector: `minPartitions` tasks in total, rounding aside, of about equal size,
and no task of more than `maxRecordsPerPartition` offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor
from typing import NamedTuple

from pykbroker.core.topic_partition import TopicPartition


class TaskRange(NamedTuple):
    """The offsets of a partition from `start` up to but not including `end`."""

    partition: TopicPartition
    start: int
    end: int
    is_earliest: bool = False
    """Whether the range starts at the start of the log, wherever this is when the task begins."""

    @property
    def size(self) -> int:
        """Return the number of offsets, which may be more than that of the records."""
        return self.end - self.start


class Division(NamedTuple):
    """The options that divide ranges: `minPartitions` and `maxRecordsPerPartition`, or None."""

    partitions_min: int | None = None
    records_max: int | None = None

    def applies(self, ranges: Sequence[TaskRange]) -> bool:
        is_short = self.partitions_min is not None and self.partitions_min > len(ranges)
        return is_short or (self.records_max is not None and any(each.size > self.records_max for each in ranges))


def divided(ranges: Iterable[TaskRange], division: Division) -> list[TaskRange]:
    """Return the ranges that are not empty, divided where options ask for more or smaller ranges."""
    found = [each for each in ranges if each.size > 0]
    if division.records_max is not None:
        records_max = division.records_max
        found = [part for each in found for part in _split(each, ceil(each.size / records_max))]
    if division.partitions_min is None or len(found) >= division.partitions_min:
        return found
    return _divided_by_count(found, division.partitions_min)


def _divided_by_count(ranges: Sequence[TaskRange], count: int) -> list[TaskRange]:
    """Return about `count` ranges. Ranges that are too small to be split take no part in the proportion."""
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _parts(each.size, total, count) == 1}
    rest = total - sum(each.size for each in whole)
    count_of_rest = max(count - len(whole), 1)
    return [
        part
        for each in ranges
        for part in _split(each, 1 if each in whole else _parts(each.size, rest, count_of_rest))
        if part.size > 0
    ]


def _parts(size: int, total: int, count: int) -> int:
    return max(floor(size / total * count + 0.5), 1)


def _split(found: TaskRange, parts: int) -> list[TaskRange]:
    """Return a range in parts of about equal size. The last part has the rest."""
    result, start, left = [], found.start, found.size
    for part in range(parts):
        size = left // (parts - part)
        result.append(TaskRange(found.partition, start, start + size, found.is_earliest and not part))
        start, left = start + size, left - size
    return result
