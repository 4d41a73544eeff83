"""The batches of an archive in an Iceberg table, which the snapshots of the table name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pykbroker.pipeline.jobs.differences import within
from pykbroker.pipeline.jobs.skipped import SkippedRange, merged
from pykbroker.pipeline.spark_offsets import Ends, by_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN, BATCH, ENDS = "pykbroker.run", "pykbroker.batch", "pykbroker.ends"
"""The properties of a snapshot: the run, the batch that it has written, and the offsets up to which that has read.

They are properties of the table as well, which name the last batch of the last run that has ended. Snapshots of other
maintenance than that of the job have none of them.
"""
SKIPPED = "pykbroker.skipped"
"""The property of a table that has all its skipped ranges."""
SUMS = "pykbroker.sums"
"""The property of a table that has the sums over its batches, as `table_sums` writes them."""


class TableBatch(NamedTuple):
    """A batch of a table: its number, the number of its records, and its ends."""

    batch: int
    records: int
    ends: Ends


class TableHistory(NamedTuple):
    """The record of a table about its last batch.

    If `is_whole` is true, a table that names no batch has none. If it is false, the snapshot of a batch may have
    expired behind a snapshot of maintenance.
    """

    last: TableBatch | None
    is_whole: bool


def history(table: Any) -> TableHistory:
    """Return what the snapshots of a table say, or else its properties. Batches that were rolled back do not count."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        summary = snapshot.summary()
        if summary.get(BATCH) is not None:
            return TableHistory(_batch(summary), is_whole=True)
        parent = snapshot.parentId()
        if parent is None:
            return TableHistory(None, is_whole=True)
        snapshot = table.snapshot(parent)
        if snapshot is None:
            noted = table.properties()
            return TableHistory(_batch(noted) if noted.get(BATCH) is not None else None, is_whole=False)
    return TableHistory(None, is_whole=True)


def _batch(properties: Any) -> TableBatch:
    ends = msgspec.json.decode(properties.get(ENDS) or "{}", type=Ends)
    return TableBatch(int(properties.get(BATCH)), int(properties.get("added-records") or 0), ends)


def marks(run_id: str, batch: int, ends: Ends) -> dict[str, str]:
    """Return the properties that name a batch."""
    return {RUN: run_id, BATCH: str(batch), ENDS: msgspec.json.encode(ends).decode()}


def note_batch(table: Any, batch: int, ends: Ends, sums: str | None = None) -> None:
    """Note a batch and the sums up to it in the properties of a table, which outlive the snapshot of the batch."""
    noted = table.properties()
    if noted.get(BATCH) == str(batch) and sums in (None, noted.get(SUMS)):
        return
    changes = table.updateProperties().set(BATCH, str(batch)).set(ENDS, msgspec.json.encode(ends).decode())
    if sums is not None:
        changes.set(SUMS, sums)
    changes.commit()


def has_records(spark: SparkSession, name: str, previous: Ends, ends: Ends) -> bool:
    """Whether a table has a record between the ends of two batches. All of a batch are there, or none."""
    starts = by_partition(previous)
    limits = {key: (starts.get(key, 0), end) for key, end in by_partition(ends).items()}
    return bool(within(spark.table(name), limits).head(1))


def loaded(spark: SparkSession, name: str) -> Any:
    """Return the Java object of a table as it is now."""
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    table.refresh()
    return table


def skipped_of(table: Any) -> list[SkippedRange]:
    """Return what the batches of a table have skipped."""
    text = table.properties().get(SKIPPED)
    return [] if text is None else msgspec.json.decode(text, type=list[SkippedRange])


def note_skipped(spark: SparkSession, name: str, skipped: list[SkippedRange]) -> None:
    """Add the offsets that a batch skips to the properties of a table. The batch is written afterwards."""
    table = loaded(spark, name)
    text = msgspec.json.encode(merged(skipped_of(table), skipped)).decode()
    table.updateProperties().set(SKIPPED, text).commit()
