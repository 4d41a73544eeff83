"""An archive as a DataFrame, whichever format it has, and what it says about itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.commits import CHECKPOINT, ArchiveCommits, summed
from pykbroker.pipeline.jobs.iceberg import is_directory, require_columns, table_name
from pykbroker.pipeline.jobs.skipped import SkippedRange
from pykbroker.pipeline.jobs.table_batches import last_batch, loaded, skipped_of
from pykbroker.pipeline.schema import ARCHIVE, with_times
from pykbroker.pipeline.spark_offsets import by_partition
from pykbroker.pipeline.state import MANIFEST, read_manifest
from pykbroker.pipeline.storage import literal, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTLING_S, SETTLING_ATTEMPTS = 0.5, 6


class ArchivedSpan(NamedTuple):
    """The records of a partition in an archive: the first and the last offset, and their number."""

    first: int
    last: int
    records: int


class ArchiveClaims(NamedTuple):
    """The claims of an archive about itself: the offsets up to which it has read, and its numbers of records.

    `counts` is None for a format that does not count by partition. `is_pending`: a killed run has left a batch half.
    `skipped` are offsets that were deleted before they were archived.
    """

    ends: Mapping[TopicPartition, int]
    counts: Mapping[TopicPartition, int] | None = None
    is_pending: bool = False
    skipped: Sequence[SkippedRange] = ()


def read_archive(spark: SparkSession, place: str, format_: str, topics: tuple[str, ...] = ()) -> DataFrame:
    """Return the records of an archive, of all topics or of some. Raise PipelineError if there is none."""
    from pyspark.sql import functions as f

    if format_ == "iceberg":
        name = table_name(spark, place)
        if not spark.catalog.tableExists(name):
            raise PipelineError(f"no table {name} at {place}")
        found = spark.table(name)
        require_columns(found, name)
    else:
        storage = storage_of(spark, place)
        if not storage.exists():
            raise PipelineError(f"no archive at {storage.directory}")
        reader = spark.read.schema(ARCHIVE).option("pathGlobFilter", "*.parquet")
        found = reader.parquet(literal(storage.directory))
    found = found.where(f.col("topic").isin(*topics)) if topics else found
    return with_times(found)


def read_settled(spark: SparkSession, place: str, format_: str, topics: tuple[str, ...] = ()) -> DataFrame:
    """Return the records of an archive of which no batch is half there. Raise PipelineError if one stays so.

    A job that took the half of a batch would count records as missing, or pass those whose file appears later.
    """
    for attempt in range(SETTLING_ATTEMPTS):
        if attempt:
            time.sleep(SETTLING_S)
        claims = read_claims(spark, place, format_)
        found = read_archive(spark, place, format_, topics)
        if not claims.is_pending and read_claims(spark, place, format_) == claims:
            return found
    raise PipelineError(
        f"{place} has a batch that is half written: run `pykbroker pipeline archive` again, to complete it"
    )


def read_claims(spark: SparkSession, place: str, format_: str) -> ArchiveClaims:
    """Return what an archive says about itself. Nothing if no job has written it."""
    if format_ == "iceberg":
        name = table_name(spark, place)
        last = last_batch(spark, name)
        return ArchiveClaims({} if last is None else by_partition(last.ends), skipped=skipped_of(loaded(spark, name)))
    archive = storage_of(spark, place)
    commits = ArchiveCommits(archive)
    if not commits.is_archive():
        return ArchiveClaims({})
    total = summed(commits.all())
    counts = {TopicPartition(each.topic, each.partition): each.count for each in total.ranges}
    return ArchiveClaims(by_partition(total.ends), counts, commits.is_pending(), total.skipped)


def read_topic_ids(spark: SparkSession, place: str, format_: str) -> Mapping[str, str]:
    """Return the ids of the topics of an archive. Nothing if its checkpoint is not at the default place."""
    if format_ == "iceberg" and not is_directory(place):
        return {}
    storage = storage_of(spark, place)
    if format_ == "iceberg":
        checkpoint = storage.sibling(".checkpoint")
    else:
        checkpoint = storage_of(spark, f"{storage.directory}/{CHECKPOINT}")
    return read_manifest(checkpoint).topic_ids if checkpoint.exists(MANIFEST) else {}


def archived_spans(archived: DataFrame) -> dict[TopicPartition, ArchivedSpan]:
    """Return what an archive has of each partition."""
    from pyspark.sql import functions as f

    found = archived.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset"), f.count("*")).collect()
    return {TopicPartition(row[0], row[1]): ArchivedSpan(*row[2:]) for row in found}
