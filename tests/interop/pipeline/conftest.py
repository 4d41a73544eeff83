"""Fixtures of the tests with Spark: one session for all of them, and a broker whose cleaner runs often."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import JavaPackage, JVMView

from pykbroker.pipeline.source.registration import register
from tests.interop.pipeline import warm_daemon
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.both_formats import BothFormats
from tools import spark_session
from tools.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SOURCE_ARCHIVES = "*-src.zip:"
"""The beginning of the PYTHONPATH that Spark gives to Python: pyspark and py4j as archives without compiled modules."""
PYTHON = """#!/bin/sh
export PYTHONPATH=${{PYTHONPATH#{archives}}}
if [ "$2" = {daemon} ]; then shift 2; set -- -m {warm} "$@"; fi
exec {python} "$@"
"""


def compiled_python(directory: Path) -> str:
    """Return the path of a script that runs this Python with the installed pyspark, and its workers by a warm daemon.

    Each stream of a Python data source has a process of its own, which otherwise compiles pyspark for half a second.
    """
    path = directory / "python"
    names = {"daemon": warm_daemon.DAEMON, "warm": warm_daemon.__name__}
    path.write_text(PYTHON.format(archives=SOURCE_ARCHIVES, python=sys.executable, **names))
    path.chmod(0o755)
    return str(path)


def looked_up_once(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Return a look-up of names in a JVM that keeps what it finds.

    The JVM searches 290 jars for a name, and does so for each package that the name may be in.
    """

    def kept(view: Any, name: str) -> Any:
        view.__dict__[name] = found = look_up(view, name)
        return found

    return kept


@pytest.fixture(scope="package")
def quick_names() -> Iterator[None]:
    """Look up each class and package of the JVM once."""
    with pytest.MonkeyPatch.context() as patch:
        for view in (JVMView, JavaPackage):
            patch.setattr(view, "__getattr__", looked_up_once(view.__getattr__))
        yield


@pytest.fixture(scope="package")
def spark(java: str, quick_names: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session with Spark's connector and with the format `pykbroker`."""
    spark_session.fetch()
    session = spark_session.open_session(python=compiled_python(tmp_path_factory.mktemp("python")))
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of sessions in other processes
    register(session)
    session.range(10).orderBy("id").collect()  # the first job takes seconds
    yield session
    session.stop()


@pytest.fixture(scope="package")
def spark_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Yield a broker for all tests with Spark. It keeps records with timestamps of past years."""
    settings = ("--set", "log.cleaner.backoff.ms=100", "--set", "log.retention.ms=-1")
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), "--memory", *settings)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="package")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the address of the broker for all tests with Spark, or the one that `PYKBROKER_TEST_BOOTSTRAP` names."""
    return os.environ.get("PYKBROKER_TEST_BOOTSTRAP") or request.getfixturevalue("spark_broker").address


@pytest.fixture
def formats(spark: SparkSession, spark_broker: BrokerProcess) -> BothFormats:
    """Return the two formats on one broker."""
    return BothFormats(spark, spark_broker.address)


@pytest.fixture
def archives(formats: BothFormats, tmp_path: Path) -> Archives:
    """Return the archives of the topics of the broker in a directory."""
    return Archives(formats.spark, formats.bootstrap, tmp_path)
