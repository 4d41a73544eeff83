"""The merging of small Parquet files: the directory of a day is replaced by one with fewer files, in one step."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pykbroker.pipeline.report import Say
from pykbroker.pipeline.schema import ARCHIVE
from pykbroker.pipeline.storage import LocalStorage, Storage, StoredFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_MIN = 2
"""The number of small files in a directory from which they are merged."""
MERGED = "merged"


def merge_small_files(spark: SparkSession, archive: Storage, staging: Storage, bytes_min: int, say: Say) -> int:
    """Merge the files of each day of a topic that has several small ones. Return the number of days.

    Readers of the bare directory see the old files or the new one. A file system without an exchange of directories
    keeps its small files.
    """
    if not isinstance(archive, LocalStorage):
        say(f"archive: small files are kept: {archive.directory} is not local, so days cannot be replaced in one step")
        return 0
    days = crowded_days(archive.files(), bytes_min)
    for day in days:
        _merge(spark, archive, staging, day)
    return len(days)


def crowded_days(files: list[StoredFile], bytes_min: int) -> list[str]:
    """Return the directories that have several small files, such as topic=orders/date=2026-11-24."""
    small: dict[str, int] = {}
    for file in files:
        if file.path.endswith(".parquet") and not file.path.startswith("_") and file.size < bytes_min:
            day = str(PurePosixPath(file.path).parent)
            small[day] = small.get(day, 0) + 1
    return sorted(day for day, count in small.items() if count >= FILES_MIN)


def _merge(spark: SparkSession, archive: Storage, staging: Storage, day: str) -> None:
    staging.delete(MERGED)
    columns = ", ".join(each for each in ARCHIVE.split(", ") if each.split(" ")[0] not in ("topic", "date"))
    records = spark.read.schema(columns).parquet(f"{archive.directory}/{day}")
    target = f"{staging.directory}/{MERGED}/{day}"
    records.coalesce(1).sortWithinPartitions("partition", "offset").write.parquet(target)
    for file in staging.files(f"{MERGED}/{day}"):
        if not file.path.endswith(".parquet"):
            staging.delete(file.path)
    archive.exchange(day, staging, f"{MERGED}/{day}")
    staging.delete(MERGED)
