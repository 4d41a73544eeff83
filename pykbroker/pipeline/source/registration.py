"""The registration of the format `pykbroker` in a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the format `pykbroker` for reads and writes of this session."""
    from pykbroker.pipeline.source.data_source import PykbrokerDataSource

    spark.dataSource.register(PykbrokerDataSource)
