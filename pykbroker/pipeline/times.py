"""The times of records in Spark: all 64 bits of Kafka's timestamp, and the days of the calendar that they are on.

The column `timestamp_ms` has the time as Kafka has it: ms since 1970 in UTC, of which -1 stands for no time. Spark's
type holds fewer times, readers such as Python's `datetime` fewer still, and directories need a day of four digits. So
the columns `timestamp` and `date` are null for a time outside the years 1 to 9999.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

DAY_MS = 86_400_000
FIRST_DAY_MS = -62_135_596_800_000
"""The first time that has a day: 0001-01-01T00:00:00Z."""
DAYS_END_MS = 253_402_300_800_000
"""The first time behind the days: 10000-01-01T00:00:00Z."""
CONNECTOR_EXACT_MS = -2_177_452_800_000
"""1901-01-01T00:00:00Z, from which on Spark's own connector gives the times of records as they are.

It takes earlier ones for times of the Julian calendar and of old local times, and moves them by minutes up to years.
"""
INEXACT = "the time of a record before 1901 is moved by this connector"


def time_ms_of_connector() -> Column:
    """Return the column `timestamp_ms` from the `timestamp` of Spark's own connector.

    Its evaluation fails with INEXACT for a time that the connector may have moved, and the connector itself fails for
    times that are too large for Spark's type: see `has_unreadable_time`.
    """
    from pyspark.sql import functions as f

    time_ms = f.unix_millis("timestamp")
    return f.when(time_ms < CONNECTOR_EXACT_MS, f.raise_error(f.lit(INEXACT))).otherwise(time_ms)


def has_day(time_ms: Column) -> Column:
    """Return whether a time is in the years 1 to 9999."""
    return (time_ms >= FIRST_DAY_MS) & (time_ms < DAYS_END_MS)


def timestamp_of(time_ms: Column) -> Column:
    """Return the column `timestamp`, which is null for a time outside the years 1 to 9999."""
    from pyspark.sql import functions as f

    return f.when(has_day(time_ms), f.timestamp_millis(time_ms))


def date_of(time_ms: Column) -> Column:
    """Return the column `date`: the day in UTC, such as 2026-11-24, null for a time outside the years 1 to 9999.

    It does not depend on the time zone of the session, which may lack a day.
    """
    from pyspark.sql import functions as f

    days = ((time_ms - f.pmod(time_ms, f.lit(DAY_MS))) / DAY_MS).cast("int")
    return f.when(has_day(time_ms), f.date_from_unix_date(days).cast("string"))


def has_unreadable_time(text: str) -> bool:
    """Whether the trace of an error is about a record whose time Spark's own connector cannot hold."""
    return INEXACT in text or "ArithmeticException: long overflow" in text
