"""The offsets that a log had deleted before they were archived. They are lost, and an archive records them.

Spark stops at such offsets, unless `failOnDataLoss` is false. Then it reads on from the start of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.spark_offsets import Ends, by_partition


class SkippedRange(msgspec.Struct, frozen=True, order=True):
    """The offsets of a partition from `first` to the one before `end`."""

    topic: str
    partition: int
    first: int
    end: int

    def within(self, first: int, end: int) -> int:
        """Return the number of these offsets from `first` to the one before `end`."""
        return max(0, min(self.end, end) - max(self.first, first))

    def sentence(self) -> str:
        """Return a sentence about what has happened to these offsets."""
        place = f"{self.topic}-{self.partition}: the topic had deleted"
        if self.end - self.first == 1:
            return f"{place} the offset {self.first} before it was archived"
        return f"{place} the offsets {self.first} to {self.end - 1} before they were archived"


Check = Callable[[Mapping[TopicPartition, int]], list[SkippedRange]]
"""A last check of a batch before it is committed, with the first offset of the records that were read of a partition.

It returns what the batch has skipped, and raises PipelineError if the batch must not be committed.
"""


def skipped_ranges(previous: Ends, planned: Ends, starts: Mapping[TopicPartition, int]) -> list[SkippedRange]:
    """Return what a batch skips between the ends of the one before it and its own, with the starts of the logs.

    A topic that is new begins at the start of its log. A new partition of an old one begins at 0.
    """
    before = by_partition(previous)
    found = []
    for key, end in sorted(by_partition(planned).items()):
        first, last = before.get(key, 0), min(starts.get(key, 0), end)
        if key.topic in previous and first < last:
            found.append(SkippedRange(key.topic, key.partition, first, last))
    return found


def never_archived(
    reached: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int], topics: Collection[str]
) -> list[SkippedRange]:
    """Return the offsets that logs have deleted behind the ends of an archive, of topics that it has.

    `reached` are the ends of the archive, and `starts` the starts of the logs. A new partition has 0 for its end.
    """
    return [
        SkippedRange(key.topic, key.partition, reached.get(key, 0), start)
        for key, start in sorted(starts.items())
        if key.topic in topics and start > reached.get(key, 0)
    ]


def before_records(skipped: Iterable[SkippedRange], firsts: Mapping[TopicPartition, int]) -> list[SkippedRange]:
    """Return the parts of ranges that lie before the first records that were read."""
    cut = [
        msgspec.structs.replace(
            each, end=min(each.end, firsts.get(TopicPartition(each.topic, each.partition), each.end))
        )
        for each in skipped
    ]
    return [each for each in cut if each.first < each.end]


def merged(one: Iterable[SkippedRange], two: Iterable[SkippedRange]) -> list[SkippedRange]:
    """Return the ranges of both, sorted. If several begin at the same offset, return the longest one."""
    longest: dict[tuple[str, int, int], SkippedRange] = {}
    for each in sorted([*one, *two]):
        longest[each.topic, each.partition, each.first] = each
    return list(longest.values())


def skipped_losses(skipped: Iterable[SkippedRange], topics: Collection[str] = ()) -> list[str]:
    """Return a sentence for each range, of all topics or of some."""
    return [each.sentence() for each in skipped if not topics or each.topic in topics]
