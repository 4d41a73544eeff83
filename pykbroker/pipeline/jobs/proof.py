"""The proof of an archive by its own commits: it has the records that they have counted and summed, each on its day.

One pass reduces the archive to a count, a checksum and the limits of offsets and days. Only partitions that differ from
their commits are read again, to name the batches that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.jobs.archived_files import add
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.differences import STRAYED, Difference, inside, range_columns, totals
from pykbroker.pipeline.times import DAY_MS, date_of, has_day

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_DAY = -(1 << 31)
"""The number in place of a day for a time outside the years 1 to 9999."""
EPOCH = date(1970, 1, 1)


class HeldRecords(NamedTuple):
    """The records of an archive by partition, with their checksums, and whether all of them lie under their days."""

    ranges: Mapping[TopicPartition, ArchivedRange]
    has_strayed: bool


def held_records(archived: DataFrame, *, has_checksums: bool) -> HeldRecords:
    """Return what an archive holds. Without checksums, the contents of records are not read."""
    from pyspark.sql import functions as f

    time_ms = f.col("timestamp_ms")
    day = f.when(has_day(time_ms), f.floor(time_ms / DAY_MS)).otherwise(NO_DAY)
    figures = *range_columns(has_checksum=has_checksums), f.min(day), f.max(day)
    return held(tuple(row) for row in archived.groupBy("topic", "partition", "date").agg(*figures).collect())


def held(rows: Iterable[tuple[Any, ...]]) -> HeldRecords:
    """Return the sum of rows, of which each has topic, partition, date, a range, and its first and last day."""
    ranges: dict[TopicPartition, ArchivedRange] = {}
    has_strayed = False
    for topic, partition, under, first, last, count, sums, low, high in rows:
        found = ArchivedRange(partition, first, last, count, sums, topic=topic)
        add(ranges, found.key, found)
        has_strayed |= not day_text(low) == day_text(high) == under
    return HeldRecords(ranges, has_strayed)


def day_text(day: int) -> str | None:
    """Return a day as directories have it, from its number since 1970."""
    return None if day == NO_DAY else (EPOCH + timedelta(days=day)).isoformat()


def strayed(archived: DataFrame) -> list[Difference]:
    """Return the records that do not lie under the day of their timestamp."""
    from pyspark.sql import functions as f

    found = archived.where(~date_of(f.col("timestamp_ms")).eqNullSafe(f.col("date")))
    return totals(found.withColumn("kind", f.lit(STRAYED)))


def unlike(
    claimed: Mapping[TopicPartition, ArchivedRange], found: Mapping[TopicPartition, ArchivedRange]
) -> dict[TopicPartition, ArchivedRange]:
    """Return the claims about partitions whose records are others.

    A claim without a checksum is compared by numbers alone.
    """
    return {key: each for key, each in sorted(claimed.items()) if key not in found or not each.is_like(found[key])}


def differing_batches(
    archived: DataFrame, batches: Collection[ArchivedRange], keys: Collection[TopicPartition]
) -> list[str]:
    """Return a sentence for each batch of these partitions whose records are others than those of its commit."""
    wanted = [each for each in batches if each.key in keys]
    records = inside(archived, ((*each.key, each.first, each.last + 1) for each in wanted))
    rows = records.groupBy("topic", "partition", "lower").agg(*range_columns(has_checksum=True)).collect()
    found = {row[:3]: row[3:] for row in map(tuple, rows)}
    return batch_losses(wanted, found)


def batch_losses(batches: Iterable[ArchivedRange], found: Mapping[tuple[Any, ...], tuple[Any, ...]]) -> list[str]:
    """Return a sentence for each batch that differs. `found` has ranges by topic, partition and first offset."""
    losses = []
    for each in sorted(batches, key=lambda each: (each.topic, each.partition, each.first)):
        place = each.topic, each.partition, each.first
        now = ArchivedRange.of(each.topic, each.partition, *found[place]) if place in found else None
        if now is None or not each.is_like(now):
            losses.append(_sentence(each, 0 if now is None else now.count))
    return losses


def between_batches(
    differing: Mapping[TopicPartition, ArchivedRange],
    found: Mapping[TopicPartition, ArchivedRange],
    named: Sequence[str],
) -> list[str]:
    """Return a sentence for each differing partition that no other one names: it has records between its batches."""
    return [
        _sentence(each, found[key].count if key in found else 0)
        for key, each in differing.items()
        if not any(sentence.startswith(f"{key}: ") for sentence in named)
    ]


def _sentence(batch: ArchivedRange, count: int) -> str:
    begin = f"{batch.topic}-{batch.partition}: between the offsets {batch.first} and {batch.last} the archive has"
    if count != batch.count:
        return f"{begin} {count:,} records, and its commits {batch.count:,}"
    return f"{begin} other records than its commits"


def unproven_losses(
    claimed: Mapping[TopicPartition, ArchivedRange], found: Mapping[TopicPartition, ArchivedRange]
) -> list[str]:
    """Return a sentence for each partition with records outside of what the commits name."""
    return [
        f"{key}: the archive has records between the offsets {each.first} and {each.last}, and its commits name none"
        if key not in claimed
        else f"{key}: the archive has records between the offsets {each.first} and {each.last}, and its commits only "
        f"from {claimed[key].first} to {claimed[key].last}"
        for key, each in sorted(found.items())
        if key not in claimed or each.first < claimed[key].first or each.last > claimed[key].last
    ]
