"""The measurements of records, as functions from DataFrames to DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.pipeline.times import has_day
from wire.sentinels import NO_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SEGMENT_OFFSETS = 100_000
"""The offsets of a segment: the records that one task sorts to find gaps and disorder."""
TIME_SLOTS = 120
OFFSET_SLOTS = 100
TOP_KEYS = 10
KEY_BYTES_SHOWN = 40
MS_MAX = 2**63 - 1
PARTITION = ("side", "topic", "partition")
HEADER_BYTES = "aggregate(headers, 0L, (sum, h) -> sum + octet_length(h.key) + coalesce(octet_length(h.value), 0))"


def measured(records: DataFrame, side: str) -> DataFrame:
    """Return a narrow row for each record: its place, its time in ms, and sizes in bytes. `side` is topic or archive.

    `value_bytes` is null for a record without a value. A record without a key has neither `key` nor `key_hash`.
    """
    from pyspark.sql import functions as f

    return records.select(
        f.lit(side).alias("side"),
        "topic",
        "partition",
        "offset",
        f.nullif("timestamp_ms", f.lit(NO_TIMESTAMP)).alias("time_ms"),
        f.when(f.col("key").isNotNull(), f.xxhash64("key")).alias("key_hash"),
        f.substring("key", 1, KEY_BYTES_SHOWN).alias("key"),
        f.octet_length("key").cast("long").alias("key_bytes"),
        f.octet_length("value").cast("long").alias("value_bytes"),
        f.coalesce(f.expr(HEADER_BYTES), f.lit(0)).alias("header_bytes"),
    )


def segments(rows: DataFrame) -> DataFrame:
    """Return the figures of each segment of offsets of a partition.

    `high_ms` and `low_ms` are the limits of the times, `first_ms` and `last_ms` the times of the first and the last
    record. `lateness_ms` is the longest time by which a record is older than one before it in the segment, at most
    MS_MAX. `undated` records have no time, or one outside the years 1 to 9999.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    with_segment = rows.withColumn("segment", segment())
    ordered = Window.partitionBy(*PARTITION, "segment").orderBy("offset")
    earlier = ordered.rowsBetween(Window.unboundedPreceding, -1)
    step = f.col("offset") - f.lag("offset").over(ordered)
    rows = with_segment.withColumns(
        {
            "step": step,
            "is_back": f.col("time_ms") < f.lag("time_ms").over(ordered),
            "late_ms": _later(f.max("time_ms").over(earlier), f.col("time_ms")),
        }
    )
    return rows.groupBy(*PARTITION, "segment").agg(
        f.count("*").alias("records"),
        f.bit_xor(f.xxhash64("offset")).alias("offsets_hash"),
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
        _sum(f.greatest(f.col("step") - 1, f.lit(0))).alias("missing_offsets"),
        f.count_if(f.col("step") > 1).alias("gaps"),
        f.count_if(f.col("step") == 0).alias("duplicates"),
        f.count_if("is_back").alias("steps_back"),
        f.coalesce(f.max(f.greatest(f.col("late_ms"), f.lit(0))), f.lit(0)).alias("lateness_ms"),
        f.min("time_ms").alias("low_ms"),
        f.max("time_ms").alias("high_ms"),
        f.min_by("time_ms", "offset").alias("first_ms"),
        f.max_by("time_ms", "offset").alias("last_ms"),
        _sum(f.col("key_bytes")).alias("key_bytes"),
        _sum(f.col("value_bytes")).alias("value_bytes"),
        _sum(f.col("header_bytes")).alias("header_bytes"),
        f.coalesce(f.max("value_bytes"), f.lit(0)).alias("value_bytes_max"),
        f.count_if(f.col("key_bytes").isNull()).alias("null_keys"),
        f.count_if(f.col("value_bytes").isNull()).alias("null_values"),
        f.count_if(f.col("time_ms").isNull() | ~has_day(f.col("time_ms"))).alias("undated"),
    )


def segment() -> Column:
    """Return the number of the segment of an offset."""
    from pyspark.sql import functions as f

    return f.floor(f.col("offset") / SEGMENT_OFFSETS)


def timeline(rows: DataFrame) -> DataFrame:
    """Return the records and bytes of each topic in equal slots of time between its first and its last time.

    Records without a time, or with one outside the years 1 to 9999, are left out: few of them would hide the others.
    """
    from pyspark.sql import functions as f

    timed = rows.where(has_day(f.col("time_ms")))
    limits = timed.groupBy("topic").agg(f.min("time_ms").alias("start_ms"), f.max("time_ms").alias("end_ms"))
    width = f.ceil((f.col("end_ms") - f.col("start_ms") + 1) / TIME_SLOTS)
    slots = timed.join(f.broadcast(limits.withColumn("width_ms", width)), "topic")
    begin = f.col("start_ms") + f.floor((f.col("time_ms") - f.col("start_ms")) / f.col("width_ms")) * f.col("width_ms")
    sizes = [f.coalesce(name, f.lit(0)) for name in ("key_bytes", "value_bytes", "header_bytes")]
    return slots.groupBy("side", "topic", begin.alias("start_ms"), "width_ms").agg(
        f.count("*").alias("records"), _sum(sizes[0] + sizes[1] + sizes[2]).alias("bytes")
    )


def coverage(rows: DataFrame) -> DataFrame:
    """Return the number of records of each side in equal slots of offsets, for each partition."""
    from pyspark.sql import functions as f

    limits = rows.groupBy("topic", "partition").agg(f.min("offset").alias("start"), f.max("offset").alias("end"))
    width = f.ceil((f.col("end") - f.col("start") + 1) / OFFSET_SLOTS)
    slots = rows.join(f.broadcast(limits.withColumn("width", width)), ["topic", "partition"])
    slot = f.floor((f.col("offset") - f.col("start")) / f.col("width"))
    return slots.groupBy(*PARTITION, "start", "width", slot.alias("slot")).agg(f.count("*").alias("records"))


def key_counts(rows: DataFrame) -> DataFrame:
    """Return the number of records of each key. `key` has its first bytes, and `key_bytes` its size."""
    from pyspark.sql import functions as f

    keyed = rows.where("key_hash is not null").groupBy("side", "topic", "key_hash", "key", "key_bytes")
    return keyed.agg(f.count("*").alias("records"))


def top_keys(counts: DataFrame) -> DataFrame:
    """Return the keys with the most records, from the counts of `key_counts`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("side", "topic").orderBy(f.desc("records"), "key_hash")
    ranked = counts.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= TOP_KEYS)
    return ranked.select("side", "topic", "rank", "key", "key_bytes", "records")


def key_frequencies(counts: DataFrame) -> DataFrame:
    """Return the number of keys that have each number of records, from the counts of `key_counts`."""
    from pyspark.sql import functions as f

    return counts.groupBy("side", "topic", "records").agg(f.count("*").alias("keys"))


def value_sizes(rows: DataFrame) -> DataFrame:
    """Return the number of values of each topic by size: `power` 7 stands for 128 to 255 bytes, and 0 also for none."""
    from pyspark.sql import functions as f

    power = f.floor(f.log2(f.greatest(f.col("value_bytes"), f.lit(1))))
    sized = rows.where("value_bytes is not null").groupBy("side", "topic", power.alias("power"))
    return sized.agg(f.count("*").alias("records"))


def compared(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Return how the offsets of topic and archive differ in some segments. Each offset counts once.

    `places` has topic, partition and segment, and for the partition `archive_last` and `topic_first`, its last archived
    offset and the first one of the topic, which may be null. `missing` offsets are in the topic alone, up to the last
    archived one, and `not_archived` ones behind it. `deleted` offsets are in the archive alone, before the first one of
    the topic, and `only_archived` ones behind it.
    """
    from pyspark.sql import functions as f

    within = rows.withColumn("segment", segment()).join(f.broadcast(places), ["topic", "partition", "segment"])
    offsets = within.groupBy("topic", "partition", "offset", "archive_last", "topic_first").agg(
        f.bool_or(f.col("side") == "topic").alias("in_topic"), f.bool_or(f.col("side") == "archive").alias("in_archive")
    )
    is_behind = f.coalesce(f.col("offset") > f.col("archive_last"), f.lit(True))
    is_deleted = f.coalesce(f.col("offset") < f.col("topic_first"), f.lit(True))
    topic_alone, archive_alone = ~f.col("in_archive"), ~f.col("in_topic")
    return offsets.groupBy("topic", "partition").agg(
        f.count_if(f.col("in_topic") & f.col("in_archive")).alias("both"),
        f.count_if(topic_alone & ~is_behind).alias("missing"),
        f.min(f.when(topic_alone & ~is_behind, f.col("offset"))).alias("first_missing"),
        f.count_if(topic_alone & is_behind).alias("not_archived"),
        f.count_if(archive_alone & is_deleted).alias("deleted"),
        f.count_if(archive_alone & ~is_deleted).alias("only_archived"),
    )


def _later(time_ms: Column, than_ms: Column) -> Column:
    """Return by how many ms a time is later than another one, MS_MAX if that has more than 63 bits, or null."""
    from pyspark.sql import functions as f

    return f.when(time_ms > than_ms, f.coalesce(f.try_subtract(time_ms, than_ms), f.lit(MS_MAX)))


def _sum(column: Column) -> Column:
    """Return the sum of a column, 0 if it has only nulls."""
    from pyspark.sql import functions as f

    return f.coalesce(f.sum(column), f.lit(0))
