"""The commands of `pykbroker pipeline`: their options, signals and exit codes, without Spark."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker
from pykbroker.cli.signals import STOPPING
from pykbroker.core.errors import StartError
from pykbroker.pipeline import session
from pykbroker.pipeline.errors import NoConnector, PipelineError
from pykbroker.pipeline.jobs import archive as archive_job
from pykbroker.pipeline.jobs import decode as decode_job
from pykbroker.pipeline.jobs import replay as replay_job
from pykbroker.pipeline.jobs import verify as verify_job
from pykbroker.pipeline.jobs.archive import ArchiveSettings
from pykbroker.pipeline.jobs.verify import VerifySettings
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.session import SessionSettings

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
Job = Callable[[Any, Any, Callable[[str], None]], JobReport]


class Calls:
    """The sessions and jobs that commands have asked for, and the report that they get."""

    def __init__(self) -> None:
        self.sessions: list[SessionSettings] = []
        self.settings: list[Any] = []
        self.job: Callable[[], JobReport] = lambda: JobReport("fake", {"records": 1})

    @contextmanager
    def session(self, settings: SessionSettings, _: object) -> Iterator[str]:
        self.sessions.append(settings)
        yield "session"

    def run(self, _: object, settings: Any, say: Callable[[str], None]) -> JobReport:
        self.settings.append(settings)
        say("some progress")
        return self.job()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(session, "pipeline_session", calls.session)
    monkeypatch.setattr(archive_job, "archive", calls.run)
    monkeypatch.setattr(verify_job, "verify", calls.run)
    return calls


def run(*arguments: str) -> Result:
    return CliRunner().invoke(pykbroker, ["pipeline", *arguments])


def test_archive_gets_its_settings(calls: Calls) -> None:
    run("archive", "-b", "h:1,i", "--topics", "a, b,a", "--to", "/lake", "--every", "500ms", "--uncommitted", "--moved")
    source = TopicsToRead("h:1,i:9092", ("a", "b"), committed_only=False)
    assert calls.settings == [ArchiveSettings(source, "/lake", every_s=0.5, is_moved=True)]
    assert calls.sessions == [SessionSettings()]


def test_archive_gets_options_for_kafka_and_spark(calls: Calls) -> None:
    result = run(
        *("archive", "--pattern", "a.*", "--to", "/d/ns/t", "--format", "iceberg", "--checkpoint", "/c"),
        *("--kafka", "kafka.max.poll.records=5", "--kafka", "maxOffsetsPerTrigger=7"),
        *("--master", "spark://h:7077", "--connector", "jvm", "--spark", "spark.a=b=c"),
    )
    assert result.exit_code == 0
    options = {"kafka.max.poll.records": "5", "maxOffsetsPerTrigger": "7"}
    source = TopicsToRead("127.0.0.1:9092", (), "a.*", options)
    assert calls.settings == [ArchiveSettings(source, "/d/ns/t", "iceberg", "/c")]
    [found] = calls.sessions
    assert (found.master, found.connector, found.conf) == ("spark://h:7077", "jvm", {"spark.a": "b=c"})
    assert found.packages[0].startswith("org.apache.iceberg:iceberg-spark-runtime-4.")


def test_the_file_of_a_client_becomes_options_for_kafka(calls: Calls, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nacks=all\nsasl.jaas.config=" + JAAS)
    security = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
    }
    for words in ((), ("--kafka", "kafka.fetch.min.bytes=1")):
        run("archive", "--topics", "a", "--to", "/lake", "--client-config", str(file), *words)
    sources = [each.source.options for each in calls.settings]
    assert sources == [security, {**security, "kafka.fetch.min.bytes": "1"}]
    result = run("archive", "--topics", "a", "--to", "/lake", "--kafka", "kafka.sasl.mechanism=PLAIN", "--json")
    assert (result.exit_code, len(calls.settings)) == (1, 2)
    assert json.loads(result.stdout)["error"].startswith("sasl_mechanism has no effect with security_protocol=")
    file.write_text("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/none")
    result = run("verify", "--topics", "a", "--from", "/lake", "--client-config", str(file))
    assert (result.exit_code, len(calls.settings)) == (1, 2)
    assert "/none" in result.stderr


def test_verify_gets_its_settings(calls: Calls) -> None:
    run("verify", "--topics", "a", "--from", "/lake")
    assert calls.settings == [VerifySettings(TopicsToRead("127.0.0.1:9092", ("a",)), "/lake", topics=("a",))]


def test_verify_of_an_archive_alone_has_no_source_and_needs_no_jar(calls: Calls) -> None:
    run("verify", "--archive-only", "--from", "/lake")
    assert calls.settings == [VerifySettings(None, "/lake")]
    assert calls.sessions == [SessionSettings(connector="python", reads_topics=False)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "/x"), "give either --topics or --pattern"),
        (("--to", "/x", "--topics", "a", "--pattern", "b"), "give either --topics or --pattern"),
        (("--to", "/x", "--topics", "a", "--once", "--every", "5s"), "give either --once or --every"),
        (("--to", "/x", "--topics", " , "), "name at least one topic"),
        (("--to", "/x", "--topics", "a", "--every", "soon"), "'soon' is no duration, such as 500ms, 5s, 2m or 1h"),
        (("--to", "/x", "--topics", "a", "--every", "0s"), "must be longer than nothing"),
        (("--to", "/x", "--topics", "a", "--every", "nan"), "'nan' is no duration, such as 500ms, 5s, 2m or 1h"),
        (("--to", "/x", "--topics", "a", "--every", "infh"), "'infh' is no duration, such as 500ms, 5s, 2m or 1h"),
        (("--to", "/x", "--topics", "a", "--kafka", "x"), "'x' is not KEY=VALUE"),
        (
            ("--to", "/x", "--topics", "a", "--kafka", "kafka.Isolation.Level=read_uncommitted"),
            "kafka.Isolation.Level is not allowed here: give --uncommitted",
        ),
        (("--to", "/x", "--topics", "a", "--kafka", "nonsense=1"), "Spark's format kafka has no such option"),
        (("--to", "/x", "--topics", "a", "--kafka", "includeHeaders=false"), "an archive always has the headers"),
        (("--to", "/x", "--topics", "a", "--kafka", "kafka.ssl.cafile=/x"), "Kafka's clients have no such setting"),
        (("--topics", "a"), "Missing option '--to'"),
    ],
)
def test_wrong_options_are_named(calls: Calls, arguments: tuple[str, ...], message: str) -> None:
    result = run("archive", *arguments)
    assert (result.exit_code, calls.settings) == (2, [])
    assert message in result.output


def test_replay_takes_settings_of_its_producer_only(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_job, "replay", calls.run)
    arguments = ("replay", "--archive", "/lake", "--to", "copy", "--kafka")
    assert run(*arguments, "kafka.compression.type=lz4").exit_code == 0
    assert calls.settings[0].options == {"kafka.compression.type": "lz4"}
    result = run(*arguments, "maxOffsetsPerTrigger=7")
    assert (result.exit_code, len(calls.settings)) == (2, 1)
    assert "the job reads no topics: give a setting of its producer" in " ".join(result.output.split())
    assert "maxOffsetsPerTrigger" not in run("replay", "--help").output


def test_decode_divides_settings_between_its_reader_and_its_producer(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(decode_job, "decode", calls.run)
    schema = tmp_path / "schema"
    schema.write_text('{"type": "record", "name": "R", "fields": []}')
    result = run(
        *("decode", "--topics", "a", "--to", "/x", "--format", "json", "--schema", str(schema)),
        *("--kafka", "kafka.linger.ms=7", "--kafka", "kafka.fetch.min.bytes=5", "--kafka", "minPartitions=3"),
    )
    assert result.exit_code == 0, result.output
    [found] = calls.settings
    assert found.producer == {"kafka.linger.ms": "7"}
    assert found.source.options == {"kafka.fetch.min.bytes": "5", "minPartitions": "3"}


def test_the_report_is_on_stdout_and_progress_on_stderr(calls: Calls) -> None:
    result = run("verify", "--topics", "a", "--from", "/lake", "--json")
    assert (result.exit_code, result.stderr) == (0, "some progress\n")
    assert json.loads(result.stdout)["records"] == 1
    assert run("verify", "--topics", "a", "--from", "/lake").stdout.startswith("fake: done in ")


def test_a_loss_has_its_exit_code(calls: Calls) -> None:
    calls.job = lambda: JobReport("fake", losses=["one"])
    result = run("verify", "--topics", "a", "--from", "/lake", "--json")
    assert (result.exit_code, json.loads(result.stdout)["losses"]) == (3, ["one"])


@pytest.mark.parametrize("error", [NoConnector("no jar"), StartError("no jar")])
def test_a_failure_is_a_sentence(calls: Calls, error: Exception) -> None:
    def fail() -> JobReport:
        raise error

    calls.job = fail
    result = run("verify", "--topics", "a", "--from", "/lake", "--json")
    assert (result.exit_code, result.stderr) == (1, "some progress\nError: no jar\n")
    failure = {"job": "verify", "error": "no jar", "exit_code": 1, "is_interrupted": False, "losses": []}
    assert json.loads(result.stdout) == failure
    assert run("verify", "--topics", "a", "--from", "/lake").stdout == ""


def interrupted(number: int, *, report: JobReport | None) -> Callable[[], JobReport]:
    """Return a job that gets a signal."""

    def job() -> JobReport:
        try:
            os.kill(os.getpid(), number)
            raise AssertionError("the signal has no effect")
        except KeyboardInterrupt:
            if report is None:
                raise
            return report

    return job


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_job_in_order(calls: Calls, number: int) -> None:
    before = signal.getsignal(number)
    arguments = ("archive", "--topics", "a", "--to", "/lake", "--json")
    calls.job = interrupted(number, report=JobReport("fake", is_interrupted=True))
    result = run(*arguments)
    assert (result.exit_code, json.loads(result.stdout)["is_interrupted"]) == (128 + number, True)
    calls.job = interrupted(number, report=JobReport("fake"))  # that of a job that runs until it is interrupted
    assert run(*arguments).exit_code == 0
    calls.job = interrupted(number, report=None)
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (128 + number, "some progress\narchive: interrupted\n")
    found = json.loads(result.stdout)
    assert (found["error"], found["exit_code"], found["is_interrupted"]) == ("interrupted", 128 + number, True)
    assert signal.getsignal(number) == before


class Finalized:
    """An object in whose finalizer a signal comes."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.timeout(10)
def test_a_signal_in_a_finalizer_is_an_interruption(calls: Calls) -> None:
    """Python prints a stack for what a finalizer raises, and goes on."""

    def job() -> JobReport:
        each = Finalized()
        del each
        threading.Event().wait()
        raise AssertionError("it waits for ever")

    calls.job = job
    result = run("archive", "--topics", "a", "--to", "/lake")
    assert (result.exit_code, result.stderr) == (128 + signal.SIGINT, "some progress\narchive: interrupted\n")


class LateReport(JobReport):
    """A report of a job that has ended when a signal comes."""

    def json(self) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return super().json()


def test_a_signal_after_the_end_of_a_job_has_no_effect(calls: Calls) -> None:
    calls.job = lambda: LateReport("fake", {"records": 1})
    before = [signal.getsignal(number) for number in STOPPING]
    arguments = ("verify", "--topics", "a", "--from", "/lake", "--json")
    result = run(*arguments)
    assert (result.exit_code, json.loads(result.stdout)["records"]) == (0, 1)
    assert [signal.getsignal(number) for number in STOPPING] == before
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in the process of a command
        assert run(*arguments).exit_code == 0
        assert [signal.getsignal(number) for number in STOPPING] == [signal.SIG_IGN] * len(STOPPING)
    finally:
        for number, handler in zip(STOPPING, before, strict=True):
            signal.signal(number, handler)


@pytest.mark.parametrize("losses", [[], ["one"]])
def test_a_signal_while_the_session_closes_keeps_the_report(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, losses: list[str]
) -> None:
    @contextmanager
    def closing(_: SessionSettings, __: object) -> Iterator[str]:
        yield "session"
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(session, "pipeline_session", closing)
    calls.job = lambda: JobReport("fake", losses=losses)
    result = run("verify", "--topics", "a", "--from", "/lake", "--json")
    assert (result.exit_code, result.stderr) == (3 if losses else 0, "some progress\n")
    assert json.loads(result.stdout)["losses"] == losses


def test_an_error_after_a_signal_is_an_interruption(calls: Calls) -> None:
    """A signal to the process group ends the JVM of Spark, too."""

    def job() -> JobReport:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        raise PipelineError("Spark has failed")

    calls.job = job
    result = run("archive", "--topics", "a", "--to", "/lake")
    assert (result.exit_code, result.stderr) == (128 + signal.SIGTERM, "some progress\narchive: interrupted\n")


@pytest.mark.parametrize("error", [None, PipelineError("o52.registerPython"), TypeError("a mixed up answer")])
def test_a_signal_while_the_session_opens_is_an_interruption(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """A finalizer may swallow the interruption, and a call to the JVM may fail later for it."""

    @contextmanager
    def opening(_: SessionSettings, __: object) -> Iterator[str]:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        if error is not None:
            raise error
        yield "session"

    monkeypatch.setattr(session, "pipeline_session", opening)
    result = run("archive", "--topics", "a", "--to", "/lake")
    assert (result.exit_code, result.stderr) == (128 + signal.SIGINT, "archive: interrupted\n")
    assert calls.settings == []


def test_an_error_of_the_developer_has_a_stack(calls: Calls) -> None:
    def job() -> JobReport:
        raise TypeError("of the developer")

    calls.job = job
    assert isinstance(run("archive", "--topics", "a", "--to", "/lake").exception, TypeError)
