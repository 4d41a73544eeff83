"""The number of rows in the Arrow batches that a task of Python gets: the larger the records, the fewer."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS_MAX, ROWS_MIN = 10_000, 16
BATCH_BYTES = 16 << 20
SAMPLE_ROWS = 1000


def batch_rows(value_bytes: float) -> int:
    """Return the rows of a batch for records with values of this mean size."""
    return max(ROWS_MIN, min(ROWS_MAX, int(BATCH_BYTES / max(1.0, value_bytes))))


def limit_batches(spark: SparkSession, records: DataFrame) -> None:
    """Set the rows of a session's batches by the size of some records, unless the user has set them."""
    from pyspark.sql import functions as f

    if spark.conf.get(ROWS_KEY, None) is not None:
        return
    rows = records.select(f.octet_length("value")).limit(SAMPLE_ROWS).collect()  # opens a few files, not all
    sizes = [size for (size,) in rows if size is not None]
    spark.conf.set(ROWS_KEY, str(batch_rows(fmean(sizes) if sizes else 0.0)))
