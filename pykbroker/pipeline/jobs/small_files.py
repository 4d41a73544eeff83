"""The merging of small files. The directory of a day is replaced by one with fewer files, in one step.

Iceberg merges the files of a table itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pykbroker.pipeline.report import Say
from pykbroker.pipeline.spark_errors import explained
from pykbroker.pipeline.storage import LocalStorage, Storage, StoredFile, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_MIN = 10
"""The number of small files in a directory from which they are merged, so that few records are merged twice."""
MERGED = "merged"
MERGED_TIMES_MAX = 8
"""A merged file may have this number of times the size below which a file is small."""
FILE_BYTES_MAX = 1 << 62
"""The size above which a file of an Iceberg table would be split: never."""


def merge_small_files(
    spark: SparkSession, archive: Storage, staging: str, bytes_min: int, say: Say, columns: str = ""
) -> int:
    """Merge the small files of each day of a topic that has several. Return the number of days.

    `staging` is a directory of this run inside the archive. `columns` are those of the files in Spark's DDL. Without
    them, those of the first file are read.

    Readers of the bare directory see the old files or the new ones. A file system without an exchange of directories
    keeps its small files.
    """
    days = crowded_days(archive.files(), bytes_min)
    if not days:
        return 0
    refusal = f"small files are kept: {archive.directory} cannot replace a directory in one step"
    if not isinstance(archive, LocalStorage):
        say(refusal)
        return 0
    for day, files in days.items():
        if not _merge(spark, archive, staging, day, files, bytes_min, columns):
            say(refusal)
            return 0
    return len(days)


def crowded_days(files: list[StoredFile], bytes_min: int) -> dict[str, list[StoredFile]]:
    """Return the small files of each directory that has several, such as topic=orders/date=2026-11-24."""
    small: dict[str, list[StoredFile]] = {}
    for file in files:
        if file.path.endswith(".parquet") and not file.path.startswith("_") and file.size < bytes_min:
            small.setdefault(str(PurePosixPath(file.path).parent), []).append(file)
    return {day: found for day, found in sorted(small.items()) if len(found) >= FILES_MIN}


def merged_files(sizes: list[int], bytes_min: int) -> int:
    """Return the number of files into which small ones are merged."""
    return min(max(1, sum(sizes) // (bytes_min * MERGED_TIMES_MAX)), len(sizes) - 1)


def _merge(
    spark: SparkSession, archive: Storage, staging: str, day: str, small: list[StoredFile], bytes_min: int, columns: str
) -> bool:
    """Merge the small files of a day. Return False if the file system cannot exchange the directories."""
    archive.delete(f"{staging}/{MERGED}")
    reader = spark.read.schema(columns) if columns else spark.read
    records = reader.parquet(*(literal(f"{archive.directory}/{each.path}") for each in small))
    files = records.coalesce(merged_files([each.size for each in small], bytes_min))
    files.sortWithinPartitions("partition", "offset").write.parquet(f"{archive.directory}/{staging}/{MERGED}/{day}")
    return replace_day(archive, staging, day, small)


def merge_files_of_table(spark: SparkSession, table: Any, bytes_min: int, properties: Mapping[str, str]) -> int:
    """Merge the small files of each day of an Iceberg table that has several. Return their number.

    The new snapshot has these properties. It replaces files only if no other process has changed them.
    """
    jvm: Any = spark._jvm
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession).rewriteDataFiles(table)
    options = {
        "min-input-files": FILES_MIN,
        "min-file-size-bytes": bytes_min,
        "target-file-size-bytes": bytes_min * MERGED_TIMES_MAX,
        "max-file-size-bytes": FILE_BYTES_MAX,
    }
    for key, value in options.items():
        action.option(key, str(value))
    for key, text in properties.items():
        action.snapshotProperty(key, text)
    with explained():
        return int(action.execute().rewrittenDataFilesCount())


def replace_day(archive: Storage, staging: str, day: str, small: list[StoredFile]) -> bool:
    """Replace the small files of a day by those in the staging directory. Its other files get a second name there.

    Return False if the file system cannot exchange the directories.
    """
    target = f"{staging}/{MERGED}/{day}"
    for file in archive.files(target):
        if not file.path.endswith(".parquet"):
            archive.delete(file.path)
    merged = {each.path for each in small}
    others = [each.path for each in archive.files(day) if each.path not in merged]
    is_done = all(archive.link(each, f"{target}/{PurePosixPath(each).name}") for each in others)
    if is_done:
        archive.sync(target)
        is_done = archive.exchange(day, archive, target)
    archive.delete(f"{staging}/{MERGED}")
    return is_done
