"""The columns of records in Spark: those of the `kafka` format, and those of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.pipeline.times import date_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS = "array<struct<key:string,value:binary>>"
RECORD_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": HEADERS,
    "timestamp_ms": "bigint",
}
"""The columns of records: those of the `kafka` format with `includeHeaders`, and the time as Kafka has it.

The types are as Spark's `simpleString` writes them.
"""
ARCHIVE_TYPES = {**RECORD_TYPES, "date": "string"}
"""The columns of an archive. `date` is the day of the timestamp in UTC, such as 2026-11-24.

Archives of before lack `timestamp_ms`, see `with_times`.
"""
TIME_COLUMN = "timestamp_ms"
RECORD_COLUMNS = tuple(RECORD_TYPES)
ARCHIVE = ", ".join(f"{name} {kind}" for name, kind in ARCHIVE_TYPES.items())
"""The columns of an archive in Spark's DDL."""
IDENTITY = ("topic", "partition", "offset")
"""The columns that identify a record."""


def with_date(records: DataFrame) -> DataFrame:
    """Add the column `date` to records."""
    from pyspark.sql import functions as f

    return records.select(*RECORD_COLUMNS, date_of(f.col(TIME_COLUMN)).alias("date"))


def with_times(archived: DataFrame) -> DataFrame:
    """Return the columns of an archive. Where it has no `timestamp_ms`, as of before, that comes from `timestamp`."""
    return archived.withColumn(TIME_COLUMN, time_of(archived)).select(*ARCHIVE_TYPES)


def time_of(archived: DataFrame) -> Column:
    """Return the column `timestamp_ms` of records. Records of an earlier version have only `timestamp`."""
    from pyspark.sql import functions as f

    time_ms = f.unix_millis("timestamp")
    return f.coalesce(TIME_COLUMN, time_ms) if TIME_COLUMN in archived.columns else time_ms
