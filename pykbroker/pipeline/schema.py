"""The columns of records in Spark: those of the `kafka` format, and those of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = "array<struct<key:string,value:binary>>"
RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    f"headers {HEADERS}"
)
"""The columns of the `kafka` format with `includeHeaders`, as a DDL text."""
ARCHIVE = f"{RECORD}, date string"
"""The columns of an archive. `date` is the day of the timestamp in UTC, such as 2026-11-24."""
ARCHIVE_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": HEADERS,
    "date": "string",
}
"""The columns of an archive with their types, as Spark's `simpleString` writes them."""
RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
IDENTITY = ("topic", "partition", "offset")
"""The columns that identify a record."""


def with_date(records: DataFrame) -> DataFrame:
    """Add the column `date` to records. It does not depend on the time zone of the session."""
    from pyspark.sql import functions as f

    day = f.expr("date_add(date'1970-01-01', cast(floor(unix_micros(timestamp) / 86400000000) as int))")
    return records.select(*RECORD_COLUMNS).withColumn("date", f.date_format(day, "yyyy-MM-dd"))
