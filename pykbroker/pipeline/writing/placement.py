"""The placement of records on tasks: all records of a source partition in one task, and as few as possible in each."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.schema import HEADERS
from pykbroker.pipeline.writing.record_table import WRITTEN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEED = 42
"""The seed of Spark's `hash`."""
MASK = 0xFFFF_FFFF


def spark_hash(number: int) -> int:
    """Return Spark's `hash` of an int: Murmur3 of four bytes, as a signed number."""
    mixed = _rotated(number * 0xCC9E_2D51 & MASK, 15) * 0x1B87_3593 & MASK
    found = _rotated(SEED ^ mixed, 13) * 5 + 0xE654_6B64 & MASK
    found ^= 4
    found = (found ^ found >> 16) * 0x85EB_CA6B & MASK
    found = (found ^ found >> 13) * 0xC2B2_AE35 & MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & MASK


def task_keys(tasks: int) -> list[int]:
    """Return for each task a number that Spark's hash partitioning gives to it."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(spark_hash(number) % tasks, number)
        if len(found) == tasks:
            return [found[task] for task in range(tasks)]
    raise AssertionError("numbers do not end")


def placed(records: DataFrame, sources: int) -> DataFrame:
    """Return records that have a column `source`, with those of each source in a task of their own, in order."""
    from pyspark.sql import functions as f

    keys = f.array(*map(f.lit, task_keys(sources)))
    tasks = records.repartition(sources, f.element_at(keys, f.col("source") + 1))
    ordered = tasks.sortWithinPartitions("source", "offset")
    # Spark needs a time for each null list that grows with the rows of an Arrow batch: 4 s instead of 1 s for 1 M rows.
    return ordered.withColumn("headers", f.coalesce("headers", f.lit([]).cast(HEADERS))).select(*WRITTEN_COLUMNS)


def with_source(records: DataFrame, sources: list[TopicPartition]) -> DataFrame:
    """Return the records of some source partitions, with the index of each one's partition in the column `source`."""
    from pyspark.sql import functions as f

    indexes: dict[str, list[int | None]] = {}
    for index, (topic, partition) in enumerate(sources):
        column = indexes.setdefault(topic, [])
        column += [None] * (partition + 1 - len(column))
        column[partition] = index
    found = f.lit(None).cast("int")
    for topic, column in indexes.items():
        by_partition = f.get(f.array(*[f.lit(each).cast("int") for each in column]), f.col("partition"))
        found = f.when(f.col("topic") == topic, by_partition).otherwise(found)
    return records.withColumn("source", found).where("source is not null")
