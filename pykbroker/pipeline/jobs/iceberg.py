"""An Iceberg table as the target of an archive. A batch is one snapshot, which names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.schema import ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "pykbroker"
RUN, BATCH = "pykbroker.run", "pykbroker.batch"
"""The properties of a snapshot: the run, and the batch that it has written."""


class IcebergTable:
    """A table that is partitioned by topic and day, at a directory, or of a catalog of the session.

    `place` is CATALOG.NAMESPACE.TABLE, or a directory whose last names are namespace and table of a Hadoop catalog.
    """

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark, self.name, self._run_id = spark, table_name(spark, place), ""

    def open(self, run_id: str) -> None:
        self._run_id = run_id
        columns = ARCHIVE.replace(":", ": ")
        text = f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg PARTITIONED BY (topic, date)"
        self._spark.sql(text)
        others = self._snapshots().where(f"summary['{RUN}'] is null or summary['{RUN}'] != '{run_id}'")
        if not others.isEmpty():
            raise StateConflict(
                f"the table {self.name} was written by a run with another checkpoint: a new one would begin at its "
                "first record again. Give the old one with --checkpoint, or choose another table"
            )

    def is_committed(self, batch: int) -> bool:
        found = self._snapshots().where(f"summary['{RUN}'] = '{self._run_id}' and summary['{BATCH}'] = '{batch}'")
        return not found.isEmpty()

    def write(self, records: DataFrame, batch: int, check: Callable[[], None]) -> int:
        check()
        before = self._total()
        writer = records.sortWithinPartitions("topic", "date", "partition", "offset").writeTo(self.name)
        for key, value in ((RUN, self._run_id), (BATCH, str(batch))):
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()
        return self._total() - before

    def finish(self) -> None:
        """Do nothing: Iceberg has its own procedures for small files."""

    def _snapshots(self) -> DataFrame:
        self._spark.catalog.refreshTable(self.name)
        return self._spark.table(f"{self.name}.snapshots")

    def _total(self) -> int:
        rows = self._snapshots().orderBy("committed_at", ascending=False).select("summary").take(1)
        return int(rows[0][0].get("total-records", 0)) if rows else 0


def table_name(spark: SparkSession, place: str) -> str:
    """Return the full name of a table, and make the catalog of a directory."""
    if "/" not in place and "\\" not in place:
        if place.count(".") < 2:
            raise PipelineError(f"{place!r} is neither a directory nor CATALOG.NAMESPACE.TABLE")
        return ".".join(f"`{part}`" for part in place.split("."))
    scheme, colon, rest = place.rpartition(":")
    path = PurePosixPath(rest)
    if len(path.parts) < 4:
        raise PipelineError(
            f"{place}: the directory of a table needs two directories above it, as in /data/lake/orders"
        )
    catalog = f"spark.sql.catalog.{CATALOG}"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.cache-enabled", "false")  # each session of Spark has a cache of its own
    spark.conf.set(f"{catalog}.warehouse", f"{scheme}{colon}{path.parent.parent}")
    return f"{CATALOG}.`{path.parent.name}`.`{path.name}`"
