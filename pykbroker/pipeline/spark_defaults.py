"""The settings of a session of Spark that a job prefers, wherever the user has set nothing else.

A user sets something by `--spark`, by the arguments of `spark-submit`, in `spark-defaults.conf`, or in the environment.
A JVM that runs has all of that together. Only the size of its heap must be known before.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pykbroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"
"""The heap of a JVM in which all tasks run. Records of 1 MB, Kafka's default maximum, end Spark's default of 1 GB."""
MEMORY_VARIABLES = ("SPARK_DRIVER_MEMORY", "SPARK_MEM")
"""The variables with the heap of a driver. Every other setting of it comes before them."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable of the environment that `spark-submit` sets. Its JVM runs already, with master and jars of its own."""
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
PROGRESS = {"spark.ui.showConsoleProgress": "false"}
"""A setting of every launch, since `spark-submit` turns it on for the session of pyspark."""
ROW_GROUP_BYTES = 32 << 20
"""The size of a row group of a Parquet file. A task holds one for each file that it writes or reads."""
DEFAULTS = {
    **PROGRESS,
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.hadoop.parquet.block.size": str(ROW_GROUP_BYTES),
    # The size of a page and of a row group is first looked at after these rows, by default 100 of any size.
    "spark.hadoop.parquet.page.size.row.check.min": "10",
    "spark.hadoop.parquet.block.size.row.check.min": "10",
}


MASTER, DEFAULT_MASTER = "spark.master", "local[*]"
ARGUMENTS, DEFAULTS_FILE = "PYSPARK_SUBMIT_ARGS", "spark-defaults.conf"
ENTRY = re.compile(r"\s*(?P<key>[^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(?P<value>\S*)\s*")
"""A line of a file with settings of Spark."""


def expected_master(conf: Mapping[str, str]) -> str:
    """Return the master that a JVM with some settings takes, in the order of `spark-submit`.

    The settings come first, then the arguments in PYSPARK_SUBMIT_ARGS, the file with Spark's defaults, and MASTER.
    Raise PipelineError for arguments that no shell could split.
    """
    text = os.environ.get(ARGUMENTS, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PipelineError(f"{ARGUMENTS}={text} cannot be split into arguments: {error}") from None
    parts = (each.split("=", 1) if each.startswith("--") else [each] for each in words)
    arguments = list(pairwise(part for each in parts for part in each))
    options = dict(arguments)
    given = dict(value.partition("=")[::2] for name, value in arguments if name in ("--conf", "-c"))
    file = options.get("--properties-file")
    places: tuple[Callable[[], str | None], ...] = (
        lambda: conf.get(MASTER),
        lambda: options.get("--master"),
        lambda: given.get(MASTER),
        lambda: file_settings(Path(file) if file else defaults_file()).get(MASTER),
        lambda: os.environ.get("MASTER"),
    )
    return next((found for place in places if (found := place())), DEFAULT_MASTER)


def defaults_file() -> Path:
    """Return the file with the defaults that a user has for Spark."""
    from pyspark import find_spark_home

    home: Any = find_spark_home
    directory = os.environ.get("SPARK_CONF_DIR")
    return (Path(directory) if directory else Path(home._find_spark_home(), "conf")) / DEFAULTS_FILE


def file_settings(path: Path) -> dict[str, str]:
    """Return the settings in a file of Java's properties whose values have no spaces, or nothing without a file."""
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    return {found["key"]: found["value"] for line in lines if (found := ENTRY.fullmatch(line))}


def lacking_defaults(conf: Mapping[str, str], *, is_here: bool) -> dict[str, str]:
    """Return the defaults of a session that the user has not set. `conf` has the settings of a command.

    A JVM with these settings starts if none runs. With `is_here`, it runs all tasks.
    """
    from pyspark import SparkConf, SparkContext

    launch = SparkConf(loadDefaults=False)
    for key, value in {**PROGRESS, **conf}.items():
        launch.set(key, value)
    with default_memory(is_here=is_here):
        SparkContext._ensure_initialized(conf=launch)
    known = SparkConf()
    wanted = {**DEFAULTS, **(LOCAL if is_here else {})}
    return {key: value for key, value in wanted.items() if not known.contains(key)}


@contextmanager
def default_memory(*, is_here: bool) -> Iterator[None]:
    """Give a JVM that starts in the block a heap of DRIVER_MEMORY, unless the user has set another one."""
    name = MEMORY_VARIABLES[0]
    if not is_here or any(each in os.environ for each in MEMORY_VARIABLES):
        yield
        return
    os.environ[name] = DRIVER_MEMORY
    try:
        yield
    finally:
        del os.environ[name]


def prefer(spark: SparkSession, key: str, value: str) -> None:
    """Set something in a session, unless the user has."""
    if spark.conf.get(key, None) is None:
        spark.conf.set(key, value)
