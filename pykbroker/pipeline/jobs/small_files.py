"""The merging of small files. The directory of a day is replaced by one with fewer files, in one step.

Iceberg merges the files of a table itself.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pykbroker.pipeline.errors import NoExchange, StateConflict
from pykbroker.pipeline.jobs.archived_files import ArchivedFile, FileChange, damages, summed_contents
from pykbroker.pipeline.jobs.commits import ArchiveCommits
from pykbroker.pipeline.jobs.written_files import parquet_sizes, written_files
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.spark_errors import file_of, has_lost_jvm, is_of_spark, root_cause, trace
from pykbroker.pipeline.storage import LocalStorage, Storage, StoredFile, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_MIN = 10
"""The number of small files in a directory from which they are merged, so that few records are merged twice."""
UNNAMED = re.compile(r"topic=[^/]+/date=[^/]+/(batch-[0-9]+|part)-[^/]+\.parquet")
"""The paths of the files that an earlier version has written, or merged."""
MERGED = "merged"
MERGED_TIMES_MAX = 8
"""A merged file may have this number of times the size below which a file is small."""
FILE_BYTES_MAX = 1 << 62
"""The size above which a file of an Iceberg table would be split: never."""


class OtherRecords(StateConflict):
    """Small files have other records than their commits name."""


def merge_small_files(
    spark: SparkSession, archive: Storage, commits: ArchiveCommits, bytes_min: int, say: Say, columns: str = ""
) -> int:
    """Merge the small files of each day of a topic that has several. Return the number of days.

    Only files that the commits name, and files of earlier versions, are merged. `columns` are the columns of the files
    in Spark's DDL. Without it, the columns of all files are read.

    Readers of the bare directory see the old files or the new ones. A file system without an exchange of directories
    keeps its small files, and so does a day with a damaged file; a line says so.
    """
    state, listed = commits.read(), archive.files()
    if troubles := damages(state.files, listed):
        say(f"small files are kept, since the archive {archive.directory} is damaged: {troubles[0]}")
        return 0
    days = crowded_days(own_files(listed, state.files, has_unnamed=bool(state.total.unproven)), bytes_min)
    if not days:
        return 0
    refusal = f"small files are kept: {archive.directory} cannot replace a directory and all that is in it in one step"
    if not isinstance(archive, LocalStorage):
        say(refusal)
        return 0
    merged = 0
    for day, small in days.items():
        named = {each.path: state.files[each.path] for each in small if each.path in state.files}
        try:
            if not DayMerge(spark, archive, commits, day, small, columns).run(named, bytes_min):
                say(refusal)
                break
            merged += 1
        except Exception as error:
            if not isinstance(error, OtherRecords) and not is_failed_read(error):
                raise
            reason = str(error) if isinstance(error, OtherRecords) else failed_read(error)
            say(f"the small files in {archive.directory}/{day} are kept: {reason}")
    return merged


def is_failed_read(error: Exception) -> bool:
    """Whether an error of a merge is one of Spark, which can go on."""
    return is_of_spark(error) and not has_lost_jvm(error)


def failed_read(error: Exception) -> str:
    """Return why Spark has not merged files, with the name of the one that it could not read, if it says so."""
    text = trace(error)
    found = file_of(text)
    return f"{found} cannot be read: {root_cause(text)}" if found else root_cause(text)


def own_files(listed: Iterable[StoredFile], named: Container[str], *, has_unnamed: bool) -> list[StoredFile]:
    """Return the files of an archive among all that lie in it.

    Commits of an earlier version do not name their files, which are known by their own names and those of their days.
    """
    return [each for each in listed if each.path in named or (has_unnamed and UNNAMED.fullmatch(each.path))]


def crowded_days(files: Iterable[StoredFile], bytes_min: int) -> dict[str, list[StoredFile]]:
    """Return the small files of each directory that has several, such as topic=orders/date=2026-11-24."""
    small: dict[str, list[StoredFile]] = {}
    for file in files:
        if file.path.endswith(".parquet") and not file.path.startswith("_") and file.size < bytes_min:
            small.setdefault(str(PurePosixPath(file.path).parent), []).append(file)
    return {day: found for day, found in sorted(small.items()) if len(found) >= FILES_MIN}


def merged_files(sizes: list[int], bytes_min: int) -> int:
    """Return the number of files into which small ones are merged."""
    return min(max(1, sum(sizes) // (bytes_min * MERGED_TIMES_MAX)), len(sizes) - 1)


class DayMerge:
    """The merge of the small files of one day."""

    def __init__(
        self,
        spark: SparkSession,
        archive: LocalStorage,
        commits: ArchiveCommits,
        day: str,
        small: Sequence[StoredFile],
        columns: str,
    ) -> None:
        self._spark, self._archive, self._commits, self._columns = spark, archive, commits, columns
        self._day, self._small = day, small

    def run(self, named: Mapping[str, ArchivedFile], bytes_min: int) -> bool:
        """Merge the files, of which the commits name some. Return False if they cannot be exchanged.

        Raise OtherRecords if the merged files have other records than the small ones. The small ones are kept then.
        """
        sizes = {each.path: each.size for each in self._small}
        staging = f"{self._commits.staging}/{MERGED}"
        self._archive.delete(staging)
        paths = [f"{self._archive.directory}/{each}" for each in sizes]
        reader = self._spark.read
        reader = reader.schema(self._columns) if self._columns else reader.option("mergeSchema", "true")
        records = reader.parquet(*map(literal, paths)).coalesce(merged_files(list(sizes.values()), bytes_min))
        path = f"{self._archive.directory}/{staging}/{self._day}"
        records.sortWithinPartitions("partition", "offset").write.parquet(path)
        added = written_files(self._spark, [path], parquet_sizes(self._archive, staging), self._columns)
        unnamed = {each: size for each, size in sizes.items() if each not in named}
        removed = dict(named)
        if unnamed:
            there = [f"{self._archive.directory}/{each}" for each in unnamed]
            removed |= written_files(self._spark, there, unnamed, self._columns)
        if unlike := unlike_partitions(removed.values(), added.values()):
            raise OtherRecords(self._unlike_file(named) or f"their partitions {unlike} have other records once merged")
        change = FileChange(sorted(removed), added)
        small, staged = self._small, self._commits.staging
        return self._commits.replace_files(change, lambda: replace_day(self._archive, staged, self._day, small))

    def _unlike_file(self, named: Mapping[str, ArchivedFile]) -> str:
        """Return a sentence about the first file that has other records than its commit, or nothing."""
        paths, sizes = (
            [f"{self._archive.directory}/{each}" for each in named],
            {each: named[each].size for each in named},
        )
        found = written_files(self._spark, paths, sizes, self._columns) if named else {}
        unlike = sorted(each for each in named if found[each] != named[each])
        more = f", and so have {len(unlike) - 1} more" if len(unlike) > 1 else ""
        return f"{self._archive.directory}/{unlike[0]} has other records than its commit{more}" if unlike else ""


def unlike_partitions(small: Iterable[ArchivedFile], merged: Iterable[ArchivedFile]) -> list[int]:
    """Return the partitions of which merged files have other records than the small ones have by the commits."""
    before, after = summed_contents(small), summed_contents(merged)
    return sorted({each.partition for each in (*before, *after) if each not in before or each not in after})


def merge_files_of_table(
    spark: SparkSession, table: Any, bytes_min: int, properties: Mapping[str, str], say: Say
) -> int:
    """Merge the small files of each day of an Iceberg table that has several. Return their number.

    The new snapshot has these properties. It replaces files only if no other process has changed them. If one of the
    files is damaged, all are kept, and a line says so.
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
    try:
        return int(action.execute().rewrittenDataFilesCount())
    except Exception as error:
        if not is_failed_read(error):
            raise
        say(f"the small files of the table {table.name()} are kept: {failed_read(error)}")
        return 0


def replace_day(archive: LocalStorage, staging: str, day: str, small: Sequence[StoredFile]) -> bool:
    """Replace the small files of a day by those in the staging directory. All else gets a second name there.

    Return False if the file system cannot exchange the directories.
    """
    target = f"{staging}/{MERGED}/{day}"
    for file in archive.files(target):
        if not file.path.endswith(".parquet"):
            archive.delete(file.path)
    is_done = archive.mirror(day, target, {each.path for each in small})
    if is_done:
        archive.sync(target)
        try:
            archive.exchange(day, archive, target)
        except NoExchange:
            is_done = False
    archive.delete(f"{staging}/{MERGED}")
    return is_done
