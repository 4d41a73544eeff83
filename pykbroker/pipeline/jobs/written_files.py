"""The content of Parquet files that a job has just written, read back from them, so that it proves what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from pykbroker.pipeline.jobs.archived_files import ArchivedFile, OffsetRange
from pykbroker.pipeline.jobs.differences import range_columns
from pykbroker.pipeline.schema import TIME_COLUMN, time_of
from pykbroker.pipeline.storage import Storage, literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

OFFSETS = "partition int, offset bigint"
"""The columns of files without checksums, as those of decoded records."""
ONE_TASK_BYTES = 4 << 20
"""The size of all files up to which one task reads them. An exchange between tasks takes longer than that."""
PLACES = 3
"""The number of names in the path of a file: those of its topic, of its day and its own."""


def parquet_sizes(storage: Storage, directory: str) -> dict[str, int]:
    """Return the sizes in bytes of the Parquet files below a directory, by their paths there."""
    files = storage.files(directory)
    return {each.path.removeprefix(f"{directory}/"): each.size for each in files if each.path.endswith(".parquet")}


def written_files(
    spark: SparkSession, paths: Sequence[str], sizes: Mapping[str, int], columns: str
) -> dict[str, ArchivedFile]:
    """Return the content of files by their paths below the archive or below a staging directory.

    `paths` are files or directories for Spark. `sizes` has the sizes in bytes by the same names as the result, which
    are like topic=orders/date=2026-11-24/part-0.parquet. `columns` are the columns of the files in Spark's DDL. Without
    it, the records have no checksum.
    """
    names = {size: name for name, size in sizes.items()}
    by_size = len(names) == len(sizes)  # a group by a number takes a third less time than one by a path
    rows = spark.read.schema(columns or OFFSETS).parquet(*(literal(each) for each in paths))
    if sum(sizes.values()) <= ONE_TASK_BYTES:
        rows = rows.coalesce(1)
    if columns:
        rows = rows.withColumn(TIME_COLUMN, time_of(rows))
    file = "_metadata.file_size" if by_size else "_metadata.file_path"
    found = rows.groupBy(file, "partition").agg(*range_columns(has_checksum=bool(columns)))
    partitions: dict[str, list[OffsetRange]] = {}
    for key, *content in sorted(found.collect()):
        name = names.get(key, "") if by_size else "/".join(unquote(key).split("/")[-PLACES:])
        partitions.setdefault(name, []).append(OffsetRange(*content))
    return {name: ArchivedFile(size, partitions.get(name, [])) for name, size in sizes.items()}
