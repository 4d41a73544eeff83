"""An archive as a DataFrame, whichever format it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
