"""The jars of a session: Spark's Kafka connector and Iceberg's runtime, and how Ivy finds them.

Spark resolves packages when its JVM starts. A process whose start has failed gets no other JVM, so packages that Ivy
has not cached yet are resolved in a child process first.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from pykbroker.pipeline.errors import NoConnector, PipelineError

RESOLVE_S_MAX = 600
PACKAGES, JARS, IVY, IVY_SETTINGS = "spark.jars.packages", "spark.jars", "spark.jars.ivy", "spark.jars.ivySettings"
GIVEN_IN = (PACKAGES, JARS, "spark.driver.extraClassPath")
"""The settings of Spark in which a user names jars."""
IVY_HOME = ".ivy2.5.2"
"""The directory of Spark 4's Ivy in the user's home."""
ICEBERG_PACKAGES = {
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
    "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
}
"""Iceberg's runtime by version of Spark."""
CENTRAL_ALONE = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
"""Settings with which Ivy asks Maven Central only: a pom without its jar in `~/.m2` breaks its default resolvers."""
UNRESOLVED = "unresolved dependency"
NO_REASON = "no reason was given"


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


def iceberg_package() -> str:
    """Return the Maven coordinate of Iceberg's runtime. Raise NoConnector if none for this Spark is known."""
    spark = pyspark_version()
    package = ICEBERG_PACKAGES.get(".".join(spark.split(".")[:2]))
    if package is None:
        *_, latest = ICEBERG_PACKAGES
        raise NoConnector(
            f"Iceberg tables need pyspark {' or '.join(ICEBERG_PACKAGES)}, and this is {spark}: "
            f"pip install 'pykbroker[spark]' 'pyspark=={latest}.*'"
        )
    return package


def missing_packages(wanted: Iterable[str], conf: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages of which the settings of a user name no version and no jar."""
    given = " ".join(conf.get(key, "") for key in GIVEN_IN)
    return tuple(each for each in wanted if artifact(each) not in given)


def artifact(package: str) -> str:
    """Return the name of a package without group, Scala version and version, such as spark-sql-kafka-0-10."""
    name = package.split(":")[1].removesuffix("_2.13")
    return "iceberg-spark-runtime" if name.startswith("iceberg-spark-runtime") else name


def resolved(packages: Iterable[str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Spark with which all packages resolve. Raise NoConnector with Ivy's reason if none do."""
    names = [*filter(None, conf.get(PACKAGES, "").split(",")), *packages]
    found = {PACKAGES: ",".join(names)}
    if is_cached(names, conf):
        return found
    failure = ""
    for extra in _attempts(conf):
        failure = _failure({**conf, **found, **extra})
        if not failure:
            return {**found, **extra}
    raise NoConnector(f"the jars of {', '.join(names)} could not be fetched: {failure}")


def is_cached(packages: Iterable[str], conf: Mapping[str, str]) -> bool:
    """Whether Ivy has the jars of all packages already."""
    jars = ivy_directory(conf) / "jars"
    return all((jars / f"{each.replace(':', '_', 1).replace(':', '-')}.jar").exists() for each in packages)


def ivy_directory(conf: Mapping[str, str]) -> Path:
    """Return the directory of Ivy's cache."""
    return Path(conf[IVY]) if conf.get(IVY) else Path.home() / IVY_HOME


def _attempts(conf: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the settings with which packages may be resolved: those of the user, then Maven Central alone."""
    yield {}
    if conf.get(IVY_SETTINGS):
        return
    path = ivy_directory(conf) / "central-alone.xml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CENTRAL_ALONE)
    except OSError as error:
        raise NoConnector(f"{path}: {error.strerror}: name another directory with --spark {IVY}=DIR") from error
    yield {IVY_SETTINGS: str(path)}


def _failure(conf: Mapping[str, str]) -> str:
    """Return why a session with these settings cannot start, or nothing. It is tried in a child process.

    The child reads the settings from its standard input, since every user can see the arguments of a process.
    """
    command = [sys.executable, "-m", "pykbroker.pipeline.session"]
    given = msgspec.json.encode(conf).decode()
    try:
        run = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=RESOLVE_S_MAX, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {RESOLVE_S_MAX} s"
    return reason(run.stderr) if run.returncode else ""


def reason(output: str) -> str:
    """Return what Ivy or Spark says about a failed start: what is missing, and the first failed access to a server."""
    lines = [line.strip(" \t:[]") for line in output.splitlines()]
    found = [line[line.index(UNRESOLVED) :] for line in lines if UNRESOLVED in line]
    access = [line for line in lines if "Server access error" in line and UNRESOLVED not in line]
    if found or access:
        return "; ".join(dict.fromkeys((*found[-1:], *access[:1])))
    errors = [line for line in lines if "Exception" in line or "Error" in line or line.startswith("JAVA_HOME")]
    told = errors or [line for line in lines if line]
    return told[0] if told else NO_REASON
