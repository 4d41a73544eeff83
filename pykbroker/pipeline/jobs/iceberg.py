"""An Iceberg table as the target of an archive. A batch is one snapshot, which names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from zlib import crc32

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.commits import archived_ends, older_than_checkpoint
from pykbroker.pipeline.jobs.skipped import Check
from pykbroker.pipeline.jobs.small_files import merge_files_of_table
from pykbroker.pipeline.jobs.table_batches import (
    RUN,
    SUMS,
    has_records,
    history,
    loaded,
    marks,
    note_batch,
    note_skipped,
)
from pykbroker.pipeline.jobs.table_sums import NONE, TableSums, first_sums, noted_sums, settled_sums, sums_with
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.schema import ARCHIVE, ARCHIVE_TYPES, TIME_COLUMN
from pykbroker.pipeline.spark_offsets import Ends, by_partition, merged_ends
from pykbroker.pipeline.storage import real_path, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "pykbroker"


class IcebergTable:
    """A table that is partitioned by topic and day, at a directory, or of a catalog of the session.

    `place` is CATALOG.NAMESPACE.TABLE, or a directory whose last names are namespace and table of a Hadoop catalog.
    """

    def __init__(self, spark: SparkSession, place: str, file_bytes_min: int, say: Say) -> None:
        self._spark, self.name, self._say = spark, table_name(spark, place), say
        self._file_bytes_min = file_bytes_min
        self._run_id = ""

    def require_archive(self) -> None:
        """Raise StateConflict if there is a table with other columns."""
        if self._spark.catalog.tableExists(self.name):
            require_columns(self._spark.table(self.name), self.name)

    def require_run(self, run_id: str, *, is_new: bool) -> None:
        """Raise StateConflict if the table belongs to another run, or is gone and the run is not new."""
        if self._spark.catalog.tableExists(self.name):
            if table_run(self._spark, self.name) != run_id:
                raise StateConflict(
                    f"the table {self.name} was written by a run with another checkpoint: a new one would begin at its "
                    "first record again. Give the old one with --checkpoint, or choose another table"
                )
        elif not is_new:
            raise StateConflict(
                f"there is no table {self.name}, but the checkpoint has the offsets of one: restore the table, or "
                "delete the checkpoint too to begin at the first record again"
            )

    def open(self, run_id: str, *, is_new: bool) -> None:
        """Take the table for a run, or make it. Raise StateConflict as `require_run` does."""
        self._run_id = run_id
        if is_new and not self._spark.catalog.tableExists(self.name):
            text = f"CREATE TABLE {self.name} ({ARCHIVE}) USING iceberg PARTITIONED BY (topic, date)"
            self._spark.sql(f"{text} TBLPROPERTIES ('{RUN}' = '{run_id}', '{SUMS}' = '{TableSums().json()}')")
        self.require_run(run_id, is_new=is_new)
        require_time_column(self._spark, self.name)

    def require_batch(self, batch: int, planned: Callable[[int], Ends]) -> None:
        """Raise StateConflict if the table lacks a batch that the checkpoint counts as written."""
        table = loaded(self._spark, self.name)
        last, is_whole = history(table)
        if last is not None and last.batch >= batch:
            note_batch(table, last.batch, last.ends)
        elif is_whole or not self._finds(batch, planned):
            raise older_than_checkpoint(f"the table {self.name}", batch)

    def archived(self) -> Mapping[TopicPartition, int]:
        """Return the offset up to which batches have read each partition.

        The offset in a table without sums is also known from the table's records. They may be those of a batch that the
        table does not name, which is then left out: the partitions that are new in the left batch begin at its end, and
        nothing is read twice.
        """
        table = loaded(self._spark, self.name)
        last = history(table).last
        batch, ends = (NONE, {}) if last is None else (last.batch, last.ends)
        sums = self._known_sums(table, batch, ends)
        if sums is None:
            sums = first_sums(self._spark, self.name, batch)
        return archived_ends(ends, sums.ranges())

    def committed(self, batch: int, planned: Callable[[int], Ends]) -> Ends | None:
        """Return the ends of a batch, or None if it is not written. Raise StateConflict if a later one is."""
        last, is_whole = history(loaded(self._spark, self.name))
        if last is not None and last.batch > batch:
            raise StateConflict(
                f"the table {self.name} has batch {last.batch}, and the checkpoint is at batch {batch}: the checkpoint "
                "is older than the table. Restore both to the same time, or archive into a new table"
            )
        if last is not None and last.batch == batch:
            return last.ends
        return planned(batch) if not is_whole and self._finds(batch, planned) else None

    def noted(self, batch: int) -> Ends | None:
        """Return the ends of the last batch that the table names, or None if that is an earlier one."""
        last = history(loaded(self._spark, self.name)).last
        return None if last is None or last.batch < batch else last.ends

    def _finds(self, batch: int, planned: Callable[[int], Ends]) -> bool:
        """Whether the table has the records of a batch that it does not name."""
        previous = planned(batch - 1) if batch else {}
        return has_records(self._spark, self.name, previous, planned(batch))

    def write(self, records: DataFrame, batch: int, ends: Ends, check: Check) -> int:
        """Append a batch as one snapshot. Return the number of records.

        The records are read while the snapshot is written, so `check` is called before and after it. StateConflict: if
        the second check fails, the snapshot may have records of another topic.
        """
        if skipped := check({}):
            note_skipped(self._spark, self.name, skipped)
        writer = records.sortWithinPartitions("topic", "date", "partition", "offset").writeTo(self.name)
        table = loaded(self._spark, self.name)
        last = history(table).last
        before = {} if last is None else last.ends
        every = merged_ends([before, ends])  # also those of partitions that are left out now
        sums = self._sums(table, batch - 1, before)
        for key, value in marks(self._run_id, batch, every).items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.option("distribution-mode", "none").append()  # sorted tasks need no shuffle
        try:
            check(dict.fromkeys(by_partition(ends), 0))  # nothing is skipped behind what is read
        except StateConflict as error:
            raise StateConflict(
                f"{error}. The last snapshot of {self.name}, with batch {batch}, may have records of the new topic: "
                "roll the table back to the snapshot before it"
            ) from None
        table.refresh()
        sums = sums_with(self._spark, self.name, table, sums, batch, every)
        note_batch(table, batch, every, sums.json())
        written = history(table).last
        return written.records if written is not None and written.batch == batch else 0

    def _sums(self, table: Any, batch: int, ends: Ends) -> TableSums:
        """Return the sums up to a batch with these ends, also if a run was killed before it had noted them."""
        sums = self._known_sums(table, batch, ends)
        if sums is not None:
            return sums
        self._say(f"archive: the table {self.name} has no checksums of the batches up to {batch}")
        return first_sums(self._spark, self.name, batch)

    def _known_sums(self, table: Any, batch: int, ends: Ends) -> TableSums | None:
        """Return the sums up to a batch, or None if the table has no sums, or only sums of more batches."""
        sums = noted_sums(table)
        if sums is not None and sums.batch <= batch:
            return settled_sums(self._spark, self.name, sums, batch, ends)
        return TableSums(batch) if table.currentSnapshot() is None else None

    def tidy(self) -> None:
        """Merge small files, and name the last batch in the properties of the table."""
        table = loaded(self._spark, self.name)
        last = history(table).last
        if last is not None:
            note_batch(table, last.batch, last.ends, self._sums(table, last.batch, last.ends).json())
            if self._file_bytes_min:
                names = marks(self._run_id, last.batch, last.ends)
                merge_files_of_table(self._spark, table, self._file_bytes_min, names, self._say)

    def close(self) -> None:
        """Do nothing: no file lies outside the table."""


def table_run(spark: SparkSession, name: str) -> str:
    """Return the run that has made a table, or nothing if no job has made it."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    properties: dict[str, str] = {row[0]: row[1] for row in rows}
    return properties.get(RUN, "")


def require_time_column(spark: SparkSession, name: str) -> None:
    """Add the column `timestamp_ms` to a table of before, unless it has it."""
    if TIME_COLUMN not in spark.table(name).columns:
        spark.sql(f"ALTER TABLE {name} ADD COLUMN {TIME_COLUMN} {ARCHIVE_TYPES[TIME_COLUMN]}")


def require_columns(table: DataFrame, name: str) -> None:
    """Raise StateConflict if a table lacks a column of an archive, or has it with another type.

    A table of before may lack `timestamp_ms`.
    """
    found = {field.name: field.dataType.simpleString() for field in table.schema.fields}
    of_before = {TIME_COLUMN: ARCHIVE_TYPES[TIME_COLUMN]}
    unlike = [
        f"{column} is {found.get(column, 'missing')} in place of {type_}"
        for column, type_ in ARCHIVE_TYPES.items()
        if found.get(column, of_before.get(column)) != type_
    ]
    if unlike:
        raise StateConflict(f"{name} has not the columns of an archive: {'; '.join(unlike)}")


def require_location(spark: SparkSession, place: str) -> None:
    """Raise StateConflict if the table at a directory has its files in another one: it names them by whole paths."""
    name = table_name(spark, place)
    if spark.catalog.tableExists(name) and real_path(found := loaded(spark, name).location()) != real_path(place):
        raise StateConflict(
            f"the table at {place} has its files in {found}: move it back, write its metadata for the new place with "
            "Iceberg's procedure rewrite_table_path, and copy the files that this lists"
        )


def is_directory(place: str) -> bool:
    """Whether the place of a table is a directory, and not CATALOG.NAMESPACE.TABLE."""
    return "/" in place or "\\" in place


def table_name(spark: SparkSession, place: str) -> str:
    """Return the full name of a table, and make the catalog of a directory."""
    if not is_directory(place):
        if place.count(".") < 2:
            raise PipelineError(f"{place!r} is neither a directory nor CATALOG.NAMESPACE.TABLE")
        return ".".join(f"`{part}`" for part in place.split("."))
    if not urlparse(place).scheme:
        place = storage_of(spark, place).directory  # absolute, and of the default file system
    warehouse, namespace, table = table_directory(place)
    catalog = f"{CATALOG}_{crc32(warehouse.encode()):08x}"  # Spark keeps the first warehouse of a catalog's name
    setting = f"spark.sql.catalog.{catalog}"
    spark.conf.set(setting, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{setting}.type", "hadoop")
    spark.conf.set(f"{setting}.cache-enabled", "false")  # each session of Spark has a cache of its own
    spark.conf.set(f"{setting}.warehouse", warehouse)
    return f"{catalog}.`{namespace}`.`{table}`"


def table_directory(place: str) -> tuple[str, str, str]:
    """Return warehouse, namespace and table of a directory such as /data/lake/orders, or hdfs://host/data/lake/orders.

    Raise PipelineError if two directories above it are missing.
    """
    scheme, separator, rest = place.rpartition(":/")
    path = PurePosixPath(f"/{rest}") if separator else PurePosixPath(place)
    names = [part for part in path.parts if part not in ("/", ".", "..")]
    if len(names) < 3:
        raise PipelineError(
            f"{place}: the directory of a table needs two directories above it, as in /data/lake/orders"
        )
    if separator and rest.startswith("/"):
        return f"{scheme}:/{rest.rstrip('/').rsplit('/', 2)[0]}", names[-2], names[-1]
    return f"{scheme}{separator[:1]}{path.parent.parent}", names[-2], names[-1]
