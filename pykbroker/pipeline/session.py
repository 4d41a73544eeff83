"""The Spark session of a job, and the way in which it reads Kafka topics.

The connector "jvm" is Spark's own `kafka` format. "python" is the data source `pykbroker`, which needs no jar.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from pykbroker.pipeline.errors import NoConnector, PipelineError
from pykbroker.pipeline.java import require_java
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.source.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Connector = Literal["jvm", "python"]
RESOLVE_S_MAX = 600
PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
"""Iceberg's runtime for Spark 4.0."""
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
CENTRAL_ALONE = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
"""Settings with which Ivy asks Maven Central only: a pom without its jar in `~/.m2` breaks its default resolvers."""


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings of a session. `packages` are Maven coordinates beside that of the connector."""

    master: str = "local[*]"
    connector: Literal["auto", "jvm", "python"] = "auto"
    conf: Mapping[str, str] = {}
    packages: tuple[str, ...] = ()


class PipelineSession(NamedTuple):
    """A session and its connector. `note` says why the connector is not Spark's own, and is empty otherwise."""

    spark: SparkSession
    connector: Connector
    note: str


@contextmanager
def pipeline_session(settings: SessionSettings, say: Say) -> Iterator[PipelineSession]:
    """Open a session for a job, or use the active one, which stays open. Raise PipelineError if there is none.

    `say` is called with a line if the connector is not Spark's own.
    """
    pyspark_version()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    session = _of(active, settings) if active is not None else open_session(settings)
    try:
        if session.note:
            say(session.note)
        if session.connector == "python":
            register(session.spark)
        yield session
    finally:
        if active is None:
            session.spark.stop()


def pyspark_version() -> str:
    """Return the version of pyspark. Raise PipelineError if it is not installed."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        text = "the pipeline needs Spark: install it with `pip install 'pykbroker[spark]'`"
        raise PipelineError(text) from None


def connector_package() -> str:
    """Return the Maven coordinate of Spark's Kafka connector, whose version must equal pyspark's."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark_version()}"


def open_session(settings: SessionSettings) -> PipelineSession:
    """Open a session with the best connector that can be had. Raise NoJava or NoConnector."""
    require_java()
    wanted = settings.packages if settings.connector == "python" else (connector_package(), *settings.packages)
    if settings.connector == "python" and not settings.packages:
        return _started(settings, {})
    if given := {key: settings.conf[key] for key in ("spark.jars", "spark.jars.packages") if key in settings.conf}:
        return _of(_start(settings, given), settings)
    failure = ""
    for extra in _resolutions(wanted):
        failure = _failure(settings, extra)
        if not failure:
            return _of(_start(settings, extra), settings)
    text = f"the jars of {', '.join(wanted)} could not be fetched: {failure}"
    if settings.connector == "jvm" or settings.packages:
        raise NoConnector(f"{text}; give them with --spark spark.jars=PATH,... instead")
    return _started(settings, {}, f"{text}; topics are read by the data source `pykbroker` instead")


def _resolutions(packages: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield the settings with which packages may be resolved, those of the user's Ivy first."""
    found = {"spark.jars.packages": ",".join(packages)}
    yield found
    path = Path.home() / ".ivy2.5.2" / "central-alone.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CENTRAL_ALONE)
    yield {**found, "spark.jars.ivySettings": str(path)}


def _failure(settings: SessionSettings, extra: Mapping[str, str]) -> str:
    """Return why jars cannot be resolved, or nothing. A failed launch leaves its process without a JVM: try another."""
    jars = Path.home() / ".ivy2.5.2" / "jars"
    names = [each.replace(":", "_", 1).replace(":", "-") for each in extra["spark.jars.packages"].split(",")]
    if all((jars / f"{name}.jar").exists() for name in names) and "spark.jars.ivySettings" not in extra:
        return ""
    pairs = [f"{key}={value}" for key, value in {**settings.conf, **extra}.items()]
    command = [sys.executable, "-m", "pykbroker.pipeline.session", *pairs]
    run = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_S_MAX, check=False)
    if run.returncode == 0:
        return ""
    lines = [line.strip() for line in run.stderr.splitlines() if "unresolved dependency" in line or "not found" in line]
    return lines[-1] if lines else (run.stderr.strip().splitlines() or ["no reason was given"])[-1]


def _started(settings: SessionSettings, extra: Mapping[str, str], note: str = "") -> PipelineSession:
    return PipelineSession(_start(settings, extra), "python", note)


def _of(spark: SparkSession, settings: SessionSettings) -> PipelineSession:
    """Return a session with the connector that it has. Raise NoConnector if another one was asked for."""
    has_jvm = _has_class(spark, PROVIDER)
    if settings.connector == "jvm" and not has_jvm:
        raise NoConnector(f"the session has no {PROVIDER}: give it the package {connector_package()}")
    if has_jvm and settings.connector != "python":
        return PipelineSession(spark, "jvm", "")
    note = f"the session lacks {connector_package()}: topics are read by the data source `pykbroker`"
    return PipelineSession(spark, "python", "" if settings.connector == "python" else note)


def _has_class(spark: SparkSession, name: str) -> bool:
    from py4j.protocol import Py4JError

    try:
        spark._jvm.org.apache.spark.util.Utils.classForName(name, True, False)  # type: ignore[union-attr]
    except Py4JError:
        return False
    return True


def _start(settings: SessionSettings, extra: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL["spark.driver.host"])
    builder = SparkSession.builder.appName("pykbroker").master(settings.master)
    local = LOCAL if settings.master.startswith("local") else {}
    for key, value in {**DEFAULTS, **local, **settings.conf, **extra}.items():
        builder = builder.config(key, value)
    with quiet_launch():
        return builder.getOrCreate()


@contextmanager
def quiet_launch() -> Iterator[None]:
    """Keep what Java prints on stderr from the user, who sees the errors of a job as sentences.

    Java inherits the standard error of this process and has it until its end. If it cannot start, the text is printed.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(before, kept.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


if __name__ == "__main__":
    conf = dict(pair.split("=", 1) for pair in sys.argv[1:])
    _start(SessionSettings("local[1]", conf=conf), {}).stop()
