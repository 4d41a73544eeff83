"""The batches of an archive in an Iceberg table, which the snapshots of the table name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pykbroker.pipeline.jobs.skipped import SkippedRange, merged
from pykbroker.pipeline.spark_offsets import Ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN, BATCH, ENDS = "pykbroker.run", "pykbroker.batch", "pykbroker.ends"
"""The properties of a snapshot: the run, the batch that it has written, and the offsets up to which that has read.

The run is a property of the table as well. Snapshots of maintenance have none of them.
"""
SKIPPED = "pykbroker.skipped"
"""The property of a table that has all its skipped ranges."""


class TableBatch(NamedTuple):
    """A batch of a table: its number, the number of its records, and its ends."""

    batch: int
    records: int
    ends: Ends


def last_batch(spark: SparkSession, name: str) -> TableBatch | None:
    """Return the last batch of a table, or None if it has none. Batches that were rolled back do not count."""
    for summary in summaries(loaded(spark, name)):
        if BATCH in summary:
            ends = msgspec.json.decode(summary.get(ENDS, "{}"), type=Ends)
            return TableBatch(int(summary[BATCH]), int(summary.get("added-records", 0)), ends)
    return None


def loaded(spark: SparkSession, name: str) -> Any:
    """Return the Java object of a table as it is now."""
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    table.refresh()
    return table


def summaries(table: Any) -> Iterator[dict[str, str]]:
    """Yield the summaries of the current snapshot and of those before it, the newest first."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        yield dict(snapshot.summary())
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


def skipped_of(table: Any) -> list[SkippedRange]:
    """Return what the batches of a table have skipped."""
    text = table.properties().get(SKIPPED)
    return [] if text is None else msgspec.json.decode(text, type=list[SkippedRange])


def note_skipped(spark: SparkSession, name: str, skipped: list[SkippedRange]) -> None:
    """Let a table remember what a batch will skip, before the batch is written."""
    table = loaded(spark, name)
    text = msgspec.json.encode(merged(skipped_of(table), skipped)).decode()
    table.updateProperties().set(SKIPPED, text).commit()
