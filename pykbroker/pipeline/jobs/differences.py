"""The comparison of two sets of records: those of an archive, and those that a topic has stored.

Both sides are reduced to buckets of offsets with a count and a checksum. Only the buckets that differ are compared
record by record. What is returned has a row for each partition at most, however many records differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.schema import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET_OFFSETS = 10_000
MISSING, DOUBLE, ALONE, DIFFERENT = "missing", "double", "alone", "different"
"""The kinds of records that the two sides do not have once and alike."""
STRAYED = "strayed"
"""The kind of records of an archive that do not lie under the day of their timestamp."""
ComparedOffsets = Mapping[TopicPartition, tuple[int, int]]
"""The first offset and the offset behind the last one, by partition."""
RANGES = "array<struct<topic:string,partition:int,lower:bigint,upper:bigint>>"


class Difference(NamedTuple):
    """The records of a partition that differ in one way: their number, and the first and the last offset."""

    topic: str
    partition: int
    kind: str
    records: int
    first: int
    last: int


def within(records: DataFrame, limits: ComparedOffsets) -> DataFrame:
    """Return the records between these limits."""
    return inside(records, ((*key, *found) for key, found in limits.items())).select(*records.columns)


def inside(records: DataFrame, ranges: Iterable[tuple[str, int, int, int]]) -> DataFrame:
    """Return the records in ranges, each of a topic and a partition from `lower` up to but not including `upper`."""
    from pyspark.sql import functions as f

    rows = [dict(zip(("topic", "partition", "lower", "upper"), each, strict=True)) for each in ranges]
    text = f.lit(msgspec.json.encode(rows).decode())  # a literal, since rows of Python would need Python in the tasks
    table = records.sparkSession.range(1).select(f.inline(f.from_json(text, RANGES)))
    return records.join(f.broadcast(table), ["topic", "partition"]).where("offset >= lower and offset < upper")


def checksum(*more: str) -> Column:
    """Return the checksum of a record's content and of some more columns.

    The hash skips nulls, so that it also gets what is null, and the number of headers. The text of all values marks
    those that are null: a function for each header would take half of the time, since Spark does not compile it.
    """
    from pyspark.sql import functions as f

    nulls = [f.isnull(name) for name in ("key", "value", "headers")]
    values = f.array_join(f.col("headers.value").cast("array<string>"), ",", "\0")
    return f.xxhash64(
        *more, *nulls, "key", "value", f.size("headers"), "headers", values, "timestamp_ms", "timestampType"
    )


def range_columns(*, has_checksum: bool) -> tuple[Column, ...]:
    """Return the columns of an aggregation: the first and the last offset, the number of records, and their checksum.

    Without a checksum that column is null, and the contents of records are not read.
    """
    from pyspark.sql import functions as f

    total = f.bit_xor(checksum("offset")) if has_checksum else f.lit(None).cast("bigint")
    return f.min("offset"), f.max("offset"), f.count("*"), total


def read_ranges(records: DataFrame, *, has_checksum: bool = True) -> list[ArchivedRange]:
    """Return the records of each partition as one range. Without checksums only the columns of `IDENTITY` are read."""
    found = records.groupBy("topic", "partition").agg(*range_columns(has_checksum=has_checksum))
    return [ArchivedRange.of(*row) for row in sorted(found.collect(), key=lambda row: row[:2])]


def ranges_by_partition(records: DataFrame) -> dict[TopicPartition, ArchivedRange]:
    """Return the records of each partition as one range, without checksums."""
    return {each.key: each for each in read_ranges(records, has_checksum=False)}


def buckets(records: DataFrame) -> DataFrame:
    """Return a count and a checksum for every bucket of offsets of each partition."""
    from pyspark.sql import functions as f

    bucket = f.expr(f"offset div {BUCKET_OFFSETS}").alias("bucket")
    sums = f.count("*").alias("count"), f.bit_xor(checksum("offset")).alias("checksum")
    return records.groupBy("topic", "partition", bucket).agg(*sums)


def differing_limits(
    archived: DataFrame, stored: DataFrame, limits: ComparedOffsets
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the limits of the buckets that differ."""
    from pyspark.sql import functions as f

    key = ["topic", "partition", "bucket"]
    one, two = buckets(archived).alias("one"), buckets(stored).alias("two")
    same = f.col("one.count").eqNullSafe(f.col("two.count")) & f.col("one.checksum").eqNullSafe(f.col("two.checksum"))
    unlike = one.join(two, key, "full").where(~same).groupBy("topic", "partition")
    rows = unlike.agg(f.min("bucket"), f.max("bucket")).collect()
    return {
        (place := TopicPartition(topic, partition)): (
            max(limits[place][0], first * BUCKET_OFFSETS),
            min(limits[place][1], (last + 1) * BUCKET_OFFSETS),
        )
        for topic, partition, first, last in rows
    }


def differing_records(archived: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the identity of each record that the sides do not have once and alike, and the kind of difference."""
    from pyspark.sql import functions as f

    def reduced(side: DataFrame, name: str) -> DataFrame:
        return side.groupBy(*IDENTITY).agg(f.count("*").alias(name), f.bit_xor(checksum()).alias(f"{name}_sum"))

    both = reduced(archived, "archived").join(reduced(stored, "stored"), list(IDENTITY), "full")
    kind = (
        f.when(f.col("archived").isNull(), MISSING)
        .when(f.col("archived") > 1, DOUBLE)
        .when(f.col("stored").isNull(), ALONE)
        .when(f.col("archived_sum") != f.col("stored_sum"), DIFFERENT)
    )
    return both.select(*IDENTITY, kind.alias("kind")).where("kind is not null")


def doubles(archived: DataFrame) -> DataFrame:
    """Return the identity of each record that one side has more than once, and the kind of difference."""
    from pyspark.sql import functions as f

    counts = archived.groupBy(*IDENTITY).count().where("count > 1")
    return counts.select(*IDENTITY, f.lit(DOUBLE).alias("kind"))


def compacted_away(alone: DataFrame, archived: DataFrame, stored: DataFrame) -> DataFrame:
    """Return those records of an archive that compaction may have removed from the topic.

    Such a record has a key and is either a tombstone, or followed by another record of the same key.
    """
    from pyspark.sql import functions as f

    place = ["topic", "partition", "key"]
    columns = [*place, "offset"]
    newest = archived.select(*columns).union(stored.select(*columns)).groupBy(*place).agg(f.max("offset").alias("last"))
    candidates = archived.join(alone.select(*IDENTITY), list(IDENTITY), "left_semi").where("key is not null")
    found = candidates.join(newest, place).where("value is null or last > offset")
    return found.select(*IDENTITY)


def totals(records: DataFrame) -> list[Difference]:
    """Return the number of differing records by partition and kind."""
    from pyspark.sql import functions as f

    found = records.groupBy("topic", "partition", "kind").agg(f.count("*"), f.min("offset"), f.max("offset"))
    return [Difference(*row) for row in sorted(found.collect())]
