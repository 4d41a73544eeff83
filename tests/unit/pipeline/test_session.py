"""The choice of a session and its connector, without Spark: the sessions are fakes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from pykbroker.pipeline import session
from pykbroker.pipeline.errors import NoConnector, NoJava, PipelineError
from pykbroker.pipeline.jars import connector_package
from pykbroker.pipeline.session import (
    SessionSettings,
    continued,
    ended_if_unfinished,
    keeping_interrupts,
    launch_failure,
    open_session,
    pipeline_session,
)
from pykbroker.pipeline.spark_defaults import DEFAULT_MASTER, SUBMITTED

KAFKA, ICEBERG = session.PROVIDER, session.CLASSES["iceberg-spark-runtime"]
PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"


class FakeSpark:
    """A session with some classes. `stops` counts the calls of `stop`."""

    def __init__(self, classes: Iterable[str], master: str = DEFAULT_MASTER) -> None:
        self.classes, self.stops = set(classes), 0
        self.master = master

    @property
    def sparkContext(self) -> FakeSpark:
        return self

    def stop(self) -> None:
        self.stops += 1


class Machine:
    """A machine on which sessions start: the classes of a session that resolves packages, and of one that does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolved: list[tuple[str, ...]] = []
        self.started: list[Mapping[str, str]] = []
        self.equipped: list[str] = []
        self.registered = 0
        self.is_offline = False
        self.unknown: set[str] = set()
        self.given: tuple[str, ...] = ()
        monkeypatch.setattr(session, "require_java", lambda: "java")
        monkeypatch.setattr(session, "resolved", self._resolve)
        monkeypatch.setattr(session, "start", self._start)
        monkeypatch.setattr(session, "has_class", lambda spark, name: name in spark.classes)
        monkeypatch.setattr(session, "register", self._register)
        monkeypatch.setattr(session, "equip_executors", lambda spark, _: self.equipped.append(spark.master))
        monkeypatch.delenv(SUBMITTED, raising=False)

    def _resolve(self, packages: tuple[str, ...], _: Mapping[str, str]) -> dict[str, str]:
        self.resolved.append(packages)
        if self.is_offline or self.unknown.intersection(packages):
            raise NoConnector("the jars could not be fetched: no network")
        return {"spark.jars.packages": ",".join(packages)}

    def _start(self, settings: SessionSettings, extra: Mapping[str, str]) -> Any:
        self.started.append(extra)
        names = extra.get("spark.jars.packages", "") + settings.conf.get("spark.jars", "")
        classes = {KAFKA: "spark-sql-kafka", ICEBERG: "iceberg-spark-runtime"}
        found = [name for name, artifact in classes.items() if artifact in names]
        return FakeSpark([*found, *self.given], settings.master or DEFAULT_MASTER)

    def _register(self, _: object) -> None:
        self.registered += 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_packages_are_resolved_if_no_jar_is_given(machine: Machine) -> None:
    found = open_session(SessionSettings(packages=(PACKAGE,)))
    assert (found.connector, found.note) == ("jvm", "")
    assert machine.resolved == [(connector_package(), PACKAGE)]


def test_jars_of_the_user_come_before_packages(machine: Machine) -> None:
    found = open_session(SessionSettings(conf={"spark.jars": "/x/spark-sql-kafka-0-10_2.13-4.0.0.jar"}))
    assert (found.connector, machine.resolved, machine.started) == ("jvm", [], [{}])


def test_the_python_source_takes_over_with_one_line(machine: Machine) -> None:
    machine.is_offline = True
    found = open_session(SessionSettings())
    assert found.connector == "python"
    assert found.note == (
        "the jars could not be fetched: no network; topics are read by the data source `pykbroker` instead"
    )


@pytest.mark.parametrize("settings", [SessionSettings(connector="jvm"), SessionSettings(packages=(PACKAGE,))])
def test_jars_that_a_job_needs_are_not_replaced(machine: Machine, settings: SessionSettings) -> None:
    machine.is_offline = True
    with pytest.raises(NoConnector, match=r"no network\. Give them with --spark spark\.jars=PATH"):
        open_session(settings)


def test_a_job_with_a_package_reads_by_the_python_source_if_only_the_connector_cannot_be_fetched(
    machine: Machine,
) -> None:
    machine.unknown = {connector_package()}
    found = open_session(SessionSettings(packages=(PACKAGE,)))
    assert found.connector == "python"
    assert found.note.endswith("no network; topics are read by the data source `pykbroker` instead")
    assert machine.resolved == [(connector_package(), PACKAGE), (PACKAGE,)]
    assert machine.started == [{"spark.jars.packages": PACKAGE}]


def test_a_package_that_a_job_needs_is_not_replaced_by_the_python_source(machine: Machine) -> None:
    machine.unknown = {PACKAGE}
    with pytest.raises(NoConnector, match=r"no network\. Give them with --spark spark\.jars=PATH"):
        open_session(SessionSettings(packages=(PACKAGE,)))
    assert machine.started == []


def test_the_python_source_needs_no_package(machine: Machine) -> None:
    found = open_session(SessionSettings(connector="python"))
    assert (found.connector, found.note, machine.resolved, machine.started) == ("python", "", [], [{}])


def test_a_jar_without_the_connector_is_named(machine: Machine) -> None:
    settings = SessionSettings(conf={"spark.driver.extraClassPath": "/x/spark-sql-kafka-0-10.jar"}, connector="jvm")
    with pytest.raises(NoConnector, match=r"the session has no org\.apache\.spark\.sql\.kafka010"):
        open_session(settings)
    found = open_session(SessionSettings(conf=settings.conf))
    assert found.connector == "python"
    assert "the session lacks org.apache.spark:spark-sql-kafka-0-10" in found.note


def test_a_session_of_spark_submit_is_taken_as_it_is(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUBMITTED, "40000")
    machine.given = (KAFKA,)
    assert open_session(SessionSettings()).connector == "jvm"
    assert (machine.resolved, machine.started) == ([], [{}])
    with pytest.raises(NoConnector, match=f"give it the package {PACKAGE}"):
        open_session(SessionSettings(packages=(PACKAGE,)))


def test_an_active_session_is_used_and_stays_open(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    active = FakeSpark([KAFKA])
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: active)
    with pipeline_session(SessionSettings(), print) as found:
        assert found.connector == "jvm"
    assert (active.stops, machine.started, machine.registered) == (0, [], 0)


@pytest.mark.parametrize(("jsc", "stays"), [("open", True), (None, False)])
def test_a_session_that_the_jvm_has_forgotten_stays_open(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, jsc: str | None, stays: bool
) -> None:
    """The JVM keeps the active session of a connection, and an interrupted call closes it."""
    last: Any = FakeSpark([KAFKA])
    last._sc = SimpleNamespace(_jsc=jsc)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", last)
    with pipeline_session(SessionSettings(), print) as found:
        assert (found.spark is last) is stays
    assert last.stops == 0


def test_a_session_of_a_job_is_stopped_and_says_what_it_lacks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    machine.is_offline = True
    lines: list[str] = []
    with pipeline_session(SessionSettings(), lines.append) as found:
        spark: Any = found.spark
    assert (spark.stops, machine.registered, len(lines)) == (1, 1, 1)


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()])
def test_the_end_of_a_job_whose_jvm_is_gone_is_in_order(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def stop(_: FakeSpark) -> None:
        raise error

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(FakeSpark, "stop", stop)
    with pytest.raises(KeyboardInterrupt), pipeline_session(SessionSettings(), print):
        raise KeyboardInterrupt


def test_an_interrupted_launch_leaves_no_process() -> None:
    launcher: Any = java_gateway
    popen, processes = launcher.Popen, []

    def launch(error: BaseException | None) -> None:
        with ended_if_unfinished():
            processes.append(launcher.Popen(["sleep", "60"]))
            if error is not None:
                raise error

    launch(None)
    with pytest.raises(KeyboardInterrupt):
        launch(KeyboardInterrupt())
    assert [each.poll() for each in processes] == [None, -signal.SIGKILL]
    assert launcher.Popen is popen
    processes[0].kill()
    processes[0].wait()


def test_a_start_keeps_the_handler_of_interrupts() -> None:
    context: Any = sys.modules[SparkContext.__module__]
    before = signal.getsignal(signal.SIGINT)
    with keeping_interrupts():
        context.signal.signal(context.signal.SIGINT, signal.SIG_IGN)  # as the constructor of a context
    assert signal.getsignal(signal.SIGINT) is before
    assert context.signal is signal


@pytest.mark.parametrize(
    ("master", "connector", "runs_python", "equipped"),
    [
        ("local[2]", "python", True, False),
        ("local", "python", True, False),
        ("spark://host:7077", "jvm", False, False),
        ("spark://host:7077", "jvm", True, True),
        ("spark://host:7077", "python", False, True),
        ("local-cluster[1,1,1024]", "python", False, True),
    ],
)
def test_executors_of_a_cluster_are_equipped_if_tasks_run_python(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, master: str, connector: Any, runs_python: bool, equipped: bool
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pipeline_session(SessionSettings(master, connector, runs_python=runs_python), print):
        assert machine.equipped == ([master] if equipped else [])


def test_executors_of_a_job_that_reads_no_topics_are_not_equipped(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pipeline_session(SessionSettings("spark://host:7077", "python", reads_topics=False), print):
        assert machine.equipped == []


def test_a_checkpoint_decides_about_the_connector_unless_the_user_does(machine: Machine) -> None:
    said: list[str] = []
    auto = open_session(SessionSettings(master="spark://host:7077"))
    found = continued(auto, "python", said.append)
    assert (found.connector, machine.registered, machine.equipped) == ("python", 1, ["spark://host:7077"])
    assert said == ["the checkpoint was begun with --connector python, which goes on"]
    assert continued(auto, "", said.append) is continued(auto, "jvm", said.append) is auto
    for settings, other in ((SessionSettings(connector="jvm"), "python"), (SessionSettings(connector="python"), "jvm")):
        asked = open_session(settings)
        assert continued(asked, other, said.append) is asked
    machine.is_offline = True
    with pytest.raises(NoConnector, match="was begun with Spark's own connector, which this session lacks: give its"):
        continued(open_session(SessionSettings()), "jvm", said.append)


def test_errors_of_spark_in_a_job_are_sentences(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: FakeSpark([KAFKA]))
    with (
        pytest.raises(PipelineError, match="Spark has failed: no such thing"),
        pipeline_session(SessionSettings(), print),
    ):
        raise PySparkRuntimeError("no such thing")
    with pytest.raises(KeyError), pipeline_session(SessionSettings(), print):
        raise KeyError("of the developer")


def test_a_missing_java_is_found_before_spark(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> str:
        raise NoJava("no Java in PATH")

    monkeypatch.setattr(session, "require_java", no_java)
    with pytest.raises(NoJava):
        open_session(SessionSettings())
    assert machine.started == []


def test_a_failed_launch_says_what_java_printed() -> None:
    error = PySparkRuntimeError("Java gateway process exited before sending its port number.")
    found = launch_failure(error, 'Exception in thread "main" [unresolved dependency: a#b;1: not found]')
    assert isinstance(found, NoConnector)
    assert "jars could not be fetched: unresolved dependency: a#b;1: not found" in str(found)
    assert str(launch_failure(error, "")) == f"Spark could not start: {error}"
    assert str(launch_failure(error, "Error: no space\n")) == "Spark could not start: Error: no space"
