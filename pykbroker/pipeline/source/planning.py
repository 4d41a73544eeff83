"""The ranges that a query reads, decided from offsets: a batch query, and one micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.offset_json import OffsetMap
from pykbroker.pipeline.source.offset_limits import EARLIEST, EveryPartition, OffsetLimit, SpecificOffsets, named
from pykbroker.pipeline.source.offset_ranges import Division, TaskRange, divided


class MicroBatch(NamedTuple):
    """The ranges of a micro-batch, and the reasons why records that it should read are lost."""

    ranges: list[TaskRange]
    losses: list[str]


def batch_ranges(
    starting: OffsetLimit, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], division: Division
) -> list[TaskRange]:
    """Return the ranges of a batch query: one for each partition, also if it is empty, unless they are divided."""
    ranges = [TaskRange(each, starts[each], ends[each], is_earliest(starting, each)) for each in sorted(starts)]
    return divided(ranges, division) if division.applies(ranges) else ranges


def require_order(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """Raise InvalidOption if a batch query starts after its end, as behind the end of a log.

    Spark's connector fails too, but returns nothing if `minPartitions` or `maxRecordsPerPartition` divide the query.
    """
    for partition, start in sorted(starts.items()):
        if start > ends[partition]:
            raise InvalidOption(
                f"Beginning offset {start} is after the ending offset {ends[partition]} for topic {partition.topic} "
                f"partition {partition.partition}: correct the start, or the end if one is given"
            )


def is_earliest(starting: OffsetLimit, partition: TopicPartition) -> bool:
    """Whether a query starts at the start of the log of a partition."""
    match starting:
        case EveryPartition(offset):
            return offset == EARLIEST
        case SpecificOffsets(offsets):
            return offsets[partition] == EARLIEST
        case _:
            return False


def new_partitions(start: Collection[TopicPartition], end: Collection[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that the end of a micro-batch has, and its start lacks."""
    return sorted(set(end) - set(start))


def micro_batch(
    start: OffsetMap, end: OffsetMap, first: Mapping[TopicPartition, int], division: Division
) -> MicroBatch:
    """Return a micro-batch from `start` to `end`. `first` has the first offsets of new partitions that exist."""
    losses = []
    if gone := {each: 0 for each in new_partitions(start, end) if each not in first}:
        losses.append(f"Cannot find initial offsets for partitions {named(gone)}. They may have been deleted.")
    for partition, offset in sorted(first.items()):
        if offset:
            losses.append(f"Added partition {partition} starts from {offset} instead of 0.")
    if deleted := {each: 0 for each in start if each not in end}:
        losses.append(f"Partitions {named(deleted)} have been deleted.")
    begins = {**start, **first}
    ranges = [TaskRange(each, begins[each], end[each]) for each in sorted(end) if each in begins]
    losses += [
        f"Partition {each.partition} offset was changed from {each.start} to {each.end}."
        for each in ranges
        if each.size < 0
    ]
    return MicroBatch(divided(ranges, division), losses)
