"""A master and a worker of Spark in the JVM of a session, as a cluster of one machine.

The executors of the cluster have a JVM of their own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VENV_S_MAX = 60
HOST, ANY_PORT = "127.0.0.1", 0
CORES, MEMORY_MIB = 2, 1024


@contextmanager
def standalone(spark: SparkSession, directory: Path) -> Iterator[str]:
    """Start a master and a worker with two cores, and yield the URL of the master."""
    jvm: Any = spark.sparkContext._jvm
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.master.rest.enabled", "false")
    deploy, none = jvm.org.apache.spark.deploy, jvm.scala.Option.empty()
    master = deploy.master.Master.startRpcEnvAndEndpoint(HOST, ANY_PORT, ANY_PORT, conf)._1()
    try:
        url = f"spark://{HOST}:{master.address().port()}"
        masters = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)
        masters[0] = url
        resources = (CORES, MEMORY_MIB, masters, str(directory / "work"), none, conf, none)
        worker = deploy.worker.Worker.startRpcEnvAndEndpoint(HOST, ANY_PORT, ANY_PORT, *resources)
        try:
            yield url  # an application waits for the worker to register
        finally:
            _stop(worker)
    finally:
        _stop(master)


def _stop(environment: Any) -> None:
    environment.shutdown()
    environment.awaitTermination()


def bare_python(directory: Path) -> Path:
    """Make a Python of this version without any package, and return its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=VENV_S_MAX)
    return directory / "bin" / "python"
