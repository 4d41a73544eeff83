"""Parquet files as the target of an archive, in a directory for each topic and day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.jobs.commits import (
    ArchiveCommit,
    ArchiveCommits,
    archived_ends,
    older_than_checkpoint,
    ranges_of,
    summed,
    unproven_note,
)
from pykbroker.pipeline.jobs.skipped import Check
from pykbroker.pipeline.jobs.small_files import merge_small_files
from pykbroker.pipeline.jobs.written_files import parquet_sizes, written_files
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.schema import ARCHIVE_TYPES
from pykbroker.pipeline.spark_defaults import prefer
from pykbroker.pipeline.spark_offsets import Ends
from pykbroker.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONED_BY = ("topic", "date")
WRITING = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 ends in 2262 for pyarrow
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Settings for the files."""
WRITERS_KEY, WRITERS = "spark.sql.maxConcurrentOutputFileWriters", "16"
"""The files that a task has open. With fewer days than that it need not sort its records.

It reads one partition of a topic, so they are in order.
"""


class ParquetFiles:
    """An archive of Parquet files."""

    columns = ", ".join(f"{name} {kind}" for name, kind in ARCHIVE_TYPES.items() if name not in PARTITIONED_BY)
    """The columns of the files in Spark's DDL, or nothing if they are read from the files."""

    def __init__(self, spark: SparkSession, target: Storage, file_bytes_min: int, say: Say) -> None:
        self._spark, self._target, self._say = spark.newSession(), target, say
        self._file_bytes_min = file_bytes_min
        self._commits = ArchiveCommits(target)
        self._attempts = 0
        _configure(self._spark)

    def require_archive(self) -> None:
        """Raise StateConflict if the directory has files, but is no archive."""
        self._commits.require_archive()

    def require_run(self, run_id: str, *, is_new: bool) -> None:
        """Raise StateConflict if the directory belongs to another run, or is gone and the run is not new."""
        self._commits.require_run(run_id, is_new=is_new)

    def open(self, run_id: str, *, is_new: bool) -> None:
        """Take the directory for a run, and complete its last commit. Say if no batch has checksums yet."""
        self._commits.open(run_id, is_new=is_new)
        total = summed(self._commits.all())
        if self.columns and total.unproven and total.unproven[-1][1] == total.batch:
            self._say(f"archive: {unproven_note(total.unproven)}. New batches have checksums")

    def require_batch(self, batch: int, planned: Callable[[int], Ends]) -> None:
        """Raise StateConflict if the archive lacks a batch that the checkpoint counts as written."""
        if self._commits.committed(batch) is None:
            raise older_than_checkpoint(self._target.directory, batch)

    def archived(self) -> Mapping[TopicPartition, int]:
        """Return the offset up to which batches have read each partition."""
        total = summed(self._commits.all())
        return archived_ends(total.ends, total.ranges)

    def committed(self, batch: int, planned: Callable[[int], Ends]) -> Ends | None:
        """Return the ends of a batch, or None if it is not written."""
        return self.noted(batch)

    def noted(self, batch: int) -> Ends | None:
        """Return the ends that the commit of a batch has, or of all batches up to a later one, or None."""
        found = self._commits.committed(batch)
        return None if found is None else found.ends

    def write(self, records: DataFrame, batch: int, ends: Ends, check: Check) -> int:
        """Write the files of a batch to the run's directory, and commit them. Return the number of records.

        Each attempt has a directory of its own: tasks of a killed run, and of an attempt of this run that has failed,
        may still write into theirs.
        """
        self._attempts += 1
        directory = f"{self._commits.staging}/batch-{batch}-{self._attempts}"
        path = f"{self._target.directory}/{directory}"
        _configure(records.sparkSession)
        records.write.partitionBy(*PARTITIONED_BY).parquet(path)
        files = parquet_sizes(self._target, directory)
        written = written_files(self._spark, [path], files, self.columns) if files else {}
        contents = {name.replace("/part-", f"/batch-{batch}-", 1): file for name, file in written.items()}
        ranges = ranges_of(contents)
        self._target.sync(directory)
        skipped = check({each.key: each.first for each in ranges})
        self._commits.commit(ArchiveCommit(batch, {}, ranges, ends, skipped, directory, contents))
        self._target.delete(directory)
        return sum(each.count for each in ranges)

    def tidy(self) -> None:
        """Merge small files, and fold the commits, whatever happens to the files."""
        try:
            if self._file_bytes_min:
                merge_small_files(
                    self._spark, self._target, self._commits, self._file_bytes_min, self._say, self.columns
                )
        finally:
            self._commits.fold()

    def close(self) -> None:
        """Delete what this run has staged."""
        self._commits.close()


def _configure(spark: SparkSession) -> None:
    for key, value in WRITING.items():
        spark.conf.set(key, value)
    prefer(spark, WRITERS_KEY, WRITERS)
