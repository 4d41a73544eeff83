"""The Spark session of a job, and the way in which it reads Kafka topics.

The connector "jvm" is Spark's own `kafka` format. "python" is the data source `pykbroker`, which needs no jar.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from pykbroker.pipeline.errors import NoConnector, PipelineError
from pykbroker.pipeline.executors import equip_executors
from pykbroker.pipeline.interrupted_calls import close_interrupted_calls
from pykbroker.pipeline.jars import artifact, connector_package, missing_packages, pyspark_version, reason, resolved
from pykbroker.pipeline.java import require_java
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.source.registration import register
from pykbroker.pipeline.spark_defaults import LOCAL, MASTER, SUBMITTED, expected_master, lacking_defaults
from pykbroker.pipeline.spark_errors import explained, tolerating_end, trace
from pykbroker.pipeline.times import has_unreadable_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Connector = Literal["jvm", "python"]
T = TypeVar("T")
PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
CLASSES = {"iceberg-spark-runtime": "org.apache.iceberg.spark.SparkCatalog"}
"""A class of each package that a job may need beside the connector."""
PRINTED_BYTES_MAX = 1 << 20
GIVE_JARS = ". Give them with --spark spark.jars=PATH,... instead"


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings of a session. `packages` are Maven coordinates beside that of the connector.

    Without a `master`, that of Spark's own settings is taken, or local[*].

    With `runs_python`, the tasks of the job run functions of this package, so executors of a cluster need it. So do
    tasks that read topics with the connector "python", but not those of a job without `reads_topics`.
    """

    master: str = ""
    connector: Literal["auto", "jvm", "python"] = "auto"
    conf: Mapping[str, str] = {}
    packages: tuple[str, ...] = ()
    runs_python: bool = False
    reads_topics: bool = True

    def needs_package(self, connector: Connector) -> bool:
        """Whether the executors need this package, for a session with a connector."""
        return self.runs_python or (self.reads_topics and connector == "python")


class PipelineSession(NamedTuple):
    """A session and its connector. `note` says why the connector is not Spark's own, and is empty otherwise.

    `is_auto`: the user has not asked for this connector, so a checkpoint decides about it.
    """

    spark: SparkSession
    connector: Connector
    note: str
    is_auto: bool = False


@contextmanager
def pipeline_session(settings: SessionSettings, say: Say) -> Iterator[PipelineSession]:
    """Open a session for a job, or use the one that is open, which stays so.

    Raise PipelineError if no session can be opened, and in place of errors of Spark during the job. `say` is called
    with a line if the connector is not Spark's own.
    """
    pyspark_version()
    close_interrupted_calls()
    active = opened_before()
    session = with_connector(active, settings) if active is not None else open_session(settings)
    try:
        with explained():
            if session.note:
                say(session.note)
            if settings.needs_package(session.connector) and not is_local(session.spark):
                equip_executors(session.spark, say)
            if session.connector == "python":
                register(session.spark)
            yield session
    finally:
        if active is None:
            with tolerating_end(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a JVM that has ended before
                session.spark.stop()


def opened_before() -> SparkSession | None:
    """Return the active session of this thread, or the one of this process, which the JVM forgets with an interrupt."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    last: Any = SparkSession._instantiatedSession
    return last if last is not None and last._sc._jsc is not None else None


def is_local(spark: SparkSession) -> bool:
    """Whether the tasks of a session run in its own process."""
    return re.fullmatch(r"local(\[.*\])?", str(spark.sparkContext.master)) is not None


def open_session(settings: SessionSettings) -> PipelineSession:
    """Open a session with the best connector that can be had. Raise NoJava or NoConnector."""
    require_java()
    if SUBMITTED in os.environ:
        return with_connector(start(settings, {}), settings)
    wanted = settings.packages if settings.connector == "python" else (connector_package(), *settings.packages)
    needed = missing_packages(wanted, settings.conf)
    if not needed:
        return with_connector(start(settings, {}), settings)
    try:
        extra = resolved(needed, settings.conf)
    except NoConnector as error:
        if settings.connector != "auto":
            raise NoConnector(f"{error}{GIVE_JARS}") from None
        note = f"{error}; topics are read by the data source `pykbroker` instead"
        return PipelineSession(start(settings, without_connector(settings)), "python", note, is_auto=True)
    return with_connector(start(settings, extra), settings)


def without_connector(settings: SessionSettings) -> Mapping[str, str]:
    """Return the settings of Spark with which the packages of a job resolve, but not Spark's own connector.

    Raise NoConnector if a package of the job itself cannot be fetched: nothing takes its place.
    """
    needed = missing_packages(settings.packages, settings.conf)
    try:
        return resolved(needed, settings.conf) if needed else {}
    except NoConnector as error:
        raise NoConnector(f"{error}{GIVE_JARS}") from None


def with_connector(spark: SparkSession, settings: SessionSettings) -> PipelineSession:
    """Return a session with the connector that it has. Raise NoConnector if one that was asked for is missing."""
    for package in settings.packages:
        if not has_class(spark, CLASSES[artifact(package)]):
            raise NoConnector(f"the session has no {CLASSES[artifact(package)]}: give it the package {package}")
    has_jvm = has_class(spark, PROVIDER)
    if settings.connector == "jvm" and not has_jvm:
        raise NoConnector(f"the session has no {PROVIDER}: give it the package {connector_package()}")
    if has_jvm and settings.connector != "python":
        return PipelineSession(spark, "jvm", "", is_auto=settings.connector == "auto")
    note = f"the session lacks {connector_package()}: topics are read by the data source `pykbroker`"
    is_auto = settings.connector == "auto"
    return PipelineSession(spark, "python", note if is_auto else "", is_auto)


def continued(session: PipelineSession, connector: str, say: Say) -> PipelineSession:
    """Return a session with the connector of an earlier run, unless the user has asked for one.

    Raise NoConnector if the session lacks Spark's own. `connector` is empty if none is known.
    """
    if not session.is_auto or connector in ("", session.connector):
        return session
    if connector == "jvm":
        raise NoConnector(
            "the checkpoint was begun with Spark's own connector, which this session lacks: give its jars with "
            "--spark spark.jars=PATH,..., or begin a new checkpoint"
        )
    say("the checkpoint was begun with --connector python, which goes on")
    return with_data_source(session, say)


def with_data_source(session: PipelineSession, say: Say) -> PipelineSession:
    """Return a session that reads topics by the data source `pykbroker`."""
    if not is_local(session.spark):
        equip_executors(session.spark, say)
    register(session.spark)
    return session._replace(connector="python")


def retried_by_data_source(session: PipelineSession, action: Callable[[PipelineSession], T], say: Say) -> T:
    """Return the result of an action that reads topics and may be repeated.

    It is repeated by the data source `pykbroker` if a record has a time that Spark's own connector cannot hold.
    """
    try:
        return action(session)
    except Exception as error:
        if session.connector == "python" or not has_unreadable_time(trace(error)):
            raise
    say("a record has a time that --connector jvm cannot hold: its topic is read by the data source `pykbroker`")
    return action(with_data_source(session, say))


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether the JVM of a session has a class."""
    from py4j.protocol import Py4JError

    try:
        spark._jvm.org.apache.spark.util.Utils.classForName(name, True, False)  # type: ignore[union-attr]
    except Py4JError:
        return False
    return True


def start(settings: SessionSettings, extra: Mapping[str, str]) -> SparkSession:
    """Start a session with these settings. Raise PipelineError if it cannot start."""
    from pyspark.sql import SparkSession

    is_submitted = SUBMITTED in os.environ
    master = {MASTER: settings.master} if settings.master and not is_submitted else {}
    conf = {**settings.conf, **extra, **master}
    is_here = not is_submitted and expected_master(conf).startswith("local")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_here:
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL["spark.driver.host"])
    with quiet_launch() as printed, ended_if_unfinished(), keeping_interrupts():
        try:
            builder = SparkSession.builder.appName("pykbroker")
            for key, value in {**lacking_defaults(conf, is_here=is_here), **conf}.items():
                builder = builder.config(key, value)
            return builder.getOrCreate()
        except Exception as error:
            raise launch_failure(error, printed()) from error


def launch_failure(error: Exception, printed: str) -> PipelineError:
    """Return the error of a session that cannot start, from that of pyspark and from what Java has printed."""
    text = reason(printed) if printed.strip() else str(error).splitlines()[0]
    if "unresolved dependency" in text:
        return NoConnector(f"jars could not be fetched: {text}")
    return PipelineError(f"Spark could not start: {text}")


@contextmanager
def quiet_launch() -> Iterator[Callable[[], str]]:
    """Keep what Java prints on stderr from the user, who sees the errors of a job as sentences.

    Java inherits the standard error of this process and has it until its end. The yielded function returns the text.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)

        def printed() -> str:
            return os.pread(kept.fileno(), PRINTED_BYTES_MAX, 0).decode(errors="replace")  # Java may still write

        try:
            yield printed
        finally:
            os.dup2(before, 2)
            os.close(before)


@contextmanager
def ended_if_unfinished() -> Iterator[None]:
    """End the JVM that pyspark starts in the block if the block fails or is interrupted.

    pyspark deletes the directory then in which the JVM was to write its port. A JVM that cannot write it does not end.
    """
    from pyspark import java_gateway

    launcher: Any = java_gateway
    popen, started = launcher.Popen, []

    def remembered(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = popen(*arguments, **options)
        started.append(process)
        return process

    launcher.Popen = remembered
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.communicate()  # it closes the pipe, too
        raise
    finally:
        launcher.Popen = popen


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Keep the handler of SIGINT in the block.

    pyspark sets one that calls the JVM. If it interrupts a call, the answers of both are mixed up.
    """
    from pyspark import SparkContext

    context: Any = sys.modules[SparkContext.__module__]
    module = context.signal
    context.signal = SimpleNamespace(SIGINT=module.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        context.signal = module


if __name__ == "__main__":
    from pykbroker.pipeline.session import start as start_session  # its errors are those of the importable module

    try:
        start_session(SessionSettings("local[1]", conf=msgspec.json.decode(sys.stdin.read())), {}).stop()
    except PipelineError as failure:
        sys.exit(str(failure))
