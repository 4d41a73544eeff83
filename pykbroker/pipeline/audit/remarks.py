"""The sentences of an audit: what is lost, and what an operator should look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykbroker.pipeline.audit.findings import PartitionComparison, SideProfile, TopicProfile
from pykbroker.pipeline.quantities import counted, duration, share

SKEW_MIN = 2.0
"""The records of a partition, divided by the mean of its topic, from which a sentence names it."""
HOT_KEY_SHARE = 0.1
"""The share of a topic's records from which a key is named."""
NULL_SHARE = 0.01


def losses(sides: Iterable[SideProfile], comparisons: Iterable[PartitionComparison]) -> list[str]:
    """Return a sentence for each partition with records that the archive lacks, or has twice."""
    found = [
        f"{each.topic}-{each.partition}: {counted(each.missing, 'record')} of the topic missing in the archive, from "
        f"offset {each.first_missing} on"
        for each in comparisons
        if each.missing
    ]
    for side in sides:
        for topic in side.topics:
            found += [
                f"{topic.topic}-{each.partition}: {counted(each.duplicates, 'record')} of the {side.side} double"
                for each in topic.partitions
                if each.duplicates
            ]
    return found


def remarks(sides: list[SideProfile], comparisons: Iterable[PartitionComparison]) -> list[str]:
    """Return the other sentences: those about each topic are taken from its first side."""
    found = list(_of_comparisons(comparisons))
    named: set[str] = set()
    for side in sides:
        for topic in side.topics:
            if topic.topic not in named and topic.records:
                named.add(topic.topic)
                found += [*_of_partitions(topic), *_of_keys(topic), *_of_order(topic)]
    return found


def _of_comparisons(comparisons: Iterable[PartitionComparison]) -> Iterator[str]:
    topics: dict[str, list[PartitionComparison]] = {}
    for each in comparisons:
        topics.setdefault(each.topic, []).append(each)
    for topic, partitions in sorted(topics.items()):
        late = sum(each.not_archived for each in partitions)
        deleted = sum(each.deleted for each in partitions)
        alone = sum(each.only_archived for each in partitions)
        if late:
            yield f"{topic}: {counted(late, 'record')} not archived yet."
        if deleted:
            yield f"{topic}: {counted(deleted, 'record')} in the archive alone, because the topic has deleted them."
        if alone:
            yield (
                f"{topic}: {counted(alone, 'record')} in the archive alone, although the topic has older ones. "
                "Compaction explains that, and so does an archive of uncommitted records."
            )


def _of_partitions(topic: TopicProfile) -> Iterator[str]:
    mean = topic.records / len(topic.partitions)
    for each in topic.partitions:
        if each.records >= SKEW_MIN * mean:
            yield (
                f"{topic.topic}-{each.partition} has {share(each.records, topic.records)} of the records, "
                f"{each.records / mean:.1f} times the mean of its topic."
            )
    gaps, missing = (sum(getattr(each, name) for each in topic.partitions) for name in ("gaps", "missing_offsets"))
    if gaps:
        yield (
            f"{topic.topic}: {counted(missing, 'offset')} without a record, in {counted(gaps, 'gap')}. Markers of "
            "transactions, aborted records and compaction leave such gaps."
        )


def _of_keys(topic: TopicProfile) -> Iterator[str]:
    for each in topic.top_keys:
        if each.records >= HOT_KEY_SHARE * topic.records and topic.keys > 1:
            yield f"{topic.topic}: the key {each.key!r} has {share(each.records, topic.records)} of the records."
    null_keys, null_values = (sum(getattr(p, name) for p in topic.partitions) for name in ("null_keys", "null_values"))
    if null_keys >= NULL_SHARE * topic.records:
        yield f"{topic.topic}: {share(null_keys, topic.records)} of the records have no key."
    if null_values >= NULL_SHARE * topic.records:
        yield f"{topic.topic}: {share(null_values, topic.records)} of the records have no value (tombstones)."


def _of_order(topic: TopicProfile) -> Iterator[str]:
    steps = sum(each.steps_back for each in topic.partitions)
    latest = max(each.lateness_ms_max for each in topic.partitions)
    if steps:
        yield (
            f"{topic.topic}: timestamps go back {counted(steps, 'time')}. A watermark that loses no record needs a "
            f"delay of {duration(latest)}."
        )
    if undated := sum(each.undated for each in topic.partitions):
        yield (
            f"{topic.topic}: {counted(undated, 'record')} without a timestamp of the years 1 to 9999, which the plot "
            "of the rate leaves out."
        )
