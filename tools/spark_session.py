"""A small local Spark session with Spark's own `kafka` format and Iceberg, for tests and measurements.

The jars come from Maven Central through `spark.jars.packages`, as for a user.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from pykbroker.pipeline.errors import NoConnector
from pykbroker.pipeline.jars import connector_package, iceberg_package, resolved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "NoConnector", "fetch", "open_session"]
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}


@cache
def fetch() -> dict[str, str]:
    """Download the jars into Ivy's cache, and return the settings that name them. Raise NoConnector if that fails."""
    packages = [connector_package()]
    with contextlib.suppress(NoConnector):  # the tests of the formats run on versions of Spark that Iceberg lacks
        packages.append(iceberg_package())
    return resolved(packages, {})


def open_session(settings: Mapping[str, str] = MappingProxyType({}), python: str = sys.executable) -> SparkSession:
    """Return the running session, or a new one with two local threads, further settings, and the Python of tasks."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master("local[2]").appName("pykbroker")
    for key, value in {**SETTINGS, **fetch(), **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
