"""A small local Spark session with Spark's own `kafka` format, for tests and measurements.

The connector comes from Maven Central through `spark.jars.packages`, as for a user. Its version must equal pyspark's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parent.parent
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
IVY = Path.home() / ".ivy2.5.2" / "jars"
CONNECTOR_JAR = IVY / f"{CONNECTOR.replace(':', '_', 1).replace(':', '-')}.jar"
FETCH_SECONDS_MAX = 600
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
CENTRAL_ALONE = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


class NoConnector(Exception):
    """An error with the reason why the connector cannot be downloaded."""


def fetch() -> None:
    """Download the connector into Ivy's cache; raise NoConnector if that fails.

    Each attempt runs in its own process, because a failed launch leaves its process without a JVM. The second attempt
    uses only Maven Central, since a pom without its jar in `~/.m2` breaks Ivy's default resolvers.
    """
    if CONNECTOR_JAR.exists():
        return
    ivy_settings = IVY.parent / "central-alone.xml"
    ivy_settings.parent.mkdir(parents=True, exist_ok=True)
    ivy_settings.write_text(CENTRAL_ALONE)
    output = ""
    for arguments in ((), (str(ivy_settings),)):
        command = [sys.executable, "-m", "tools.spark_session", *arguments]
        run = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS_MAX
        )
        if run.returncode == 0:
            return
        output = run.stderr
    raise NoConnector(f"Spark's Kafka connector could not be fetched:\n{output[-2000:]}")


def open_session(ivy_settings: str = "") -> SparkSession:
    """Return the running session, or a new one with two local threads."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("pykbroker").config("spark.jars.packages", CONNECTOR)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if ivy_settings:
        builder = builder.config("spark.jars.ivySettings", ivy_settings)
    return builder.getOrCreate()


if __name__ == "__main__":
    open_session(*sys.argv[1:]).stop()
