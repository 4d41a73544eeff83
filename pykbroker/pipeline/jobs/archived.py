"""An archive as a DataFrame, whichever format it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.iceberg import table_name
from pykbroker.pipeline.schema import ARCHIVE, RECORD_COLUMNS
from pykbroker.pipeline.storage import storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_archive(spark: SparkSession, place: str, format_: str, topics: tuple[str, ...] = ()) -> DataFrame:
    """Return the records of an archive, of all topics or of some. Raise PipelineError if there is none."""
    from pyspark.sql import functions as f

    if format_ == "iceberg":
        found = spark.table(table_name(spark, place))
    else:
        storage = storage_of(spark, place)
        if not storage.exists():
            raise PipelineError(f"no archive at {storage.directory}")
        found = spark.read.schema(ARCHIVE).option("pathGlobFilter", "*.parquet").parquet(storage.directory)
    found = found.where(f.col("topic").isin(*topics)) if topics else found
    return found.select(*RECORD_COLUMNS, "date")


class ArchivedSpan(NamedTuple):
    """The records of a partition in an archive: the first and the last offset, and their number."""

    first: int
    last: int
    records: int


def archived_spans(archived: DataFrame) -> dict[TopicPartition, ArchivedSpan]:
    """Return what an archive has of each partition."""
    from pyspark.sql import functions as f

    found = archived.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset"), f.count("*")).collect()
    return {TopicPartition(row[0], row[1]): ArchivedSpan(*row[2:]) for row in found}
