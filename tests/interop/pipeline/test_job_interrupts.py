"""Jobs that get SIGINT at any moment between the start of their process and its end, with a judge of what they leave.

With PYKBROKER_TEST_SOAK_S=120, each job is interrupted for 120 s in processes, and for 120 s in calls to the JVM.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from py4j.clientserver import ClientServerConnection

from pykbroker.cli.signals import SIGNAL_EXIT_CODE
from pykbroker.pipeline.interrupted_calls import close_interrupted_calls
from tests.interop.one_process import run_here
from tests.interop.pipeline.archived_rows import Archived, archived, content, topic_content, write_archive
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.faulty_jobs import (
    PARTITIONS,
    GrowingTopic,
    Job,
    Runs,
    archive_of_files,
    archive_of_table,
    decoded_topic,
    state_of,
    with_key,
)
from tests.interop.pipeline.marks import spark_marks
from tests.interop.soak import SOAK_S, soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)
pytestmark = spark_marks(int(1200 + 3 * SOAK_S))  # each run of a soak starts a JVM
RECORDS = 1_000
"""The records that each run of a job finds."""
INTERRUPTED = SIGNAL_EXIT_CODE + signal.SIGINT
OWN = re.compile(r"pykbroker/(cli|pipeline|world)/|^Error: |^[a-z]+: ")
"""A line of a command, or one of a stack with its code."""
GOLDEN = (5**0.5 - 1) / 2
"""The step between moments, which spreads any number of them evenly over a run."""


class Case(NamedTuple):
    """A job with its options, a function that gives it more to do, and one that judges what it has done.

    The judge is called with the report of a run that was not interrupted, or with None.
    """

    name: str
    options: tuple[str, ...]
    grow: Callable[[], None]
    judge: Callable[[str | None], None]


Finish = Callable[..., str]
"""A function that runs a job with options to its end, which is no error, and returns its report."""
Make = Callable[[GrowingTopic, Path, Finish], Case]


def written(make: Callable[[GrowingTopic, Path], Job]) -> Make:
    """Return the maker of a case of a job that writes each record of a topic once."""

    def case(topic: GrowingTopic, directory: Path, _: Finish) -> Case:
        job = make(topic, directory)

        def judge(report: str | None) -> None:
            found = job.found()
            doubled, lost = found - topic.records, topic.records - found
            assert doubled.most_common(3) == []
            if report is not None:
                assert lost.most_common(3) == []

        return Case(job.name, tuple(job.options), lambda: topic.grow(RECORDS), judge)

    return case


def compacted(topic: GrowingTopic, directory: Path, _: Finish) -> Case:
    """Return a case of `compact`, whose target has the old state or the new one."""
    source, target = directory / "lake", directory / "state"
    ends, states = count(0, RECORDS), [dict[bytes, bytes | None]()]

    def grow() -> None:
        end = next(ends)
        rows = [with_key(row) for row in archived("orders", 0, range(end, end + RECORDS))]
        write_archive(source, rows)
        states.append({**states[-1], **{row[0]: row[1] for row in rows}})

    def judge(report: str | None) -> None:
        living = [{key: value for key, value in state.items() if value is not None} for state in states]
        assert state_of(target) in (living if report is None else living[-1:])
        if report is not None:
            assert [path.name for path in target.iterdir() if path.suffix != ".parquet"] == ["_pykbroker"]
            assert [path.name for path in directory.iterdir() if path.name.startswith("state")] == ["state"]

    return Case("compact", ("--from", str(source), "--to", str(target)), grow, judge)


def replayed(topic: GrowingTopic, directory: Path, _: Finish) -> Case:
    """Return a case of `replay`."""
    source, rows, ends = directory / "lake", list[Archived](), count(0, RECORDS)

    def grow() -> None:
        end = next(ends)
        new = [row for partition in range(PARTITIONS) for row in archived("o", partition, range(end, end + RECORDS))]
        write_archive(source, new)
        rows.extend(new)

    def judge(report: str | None) -> None:
        found, wanted = topic_content(topic.formats.bootstrap, topic.topic), content(rows)
        if report is not None:
            assert found == wanted
        for partition in range(PARTITIONS):
            got, due = ([row for row in each if row.partition == partition] for each in (found, wanted))
            assert got == due[: len(got)]

    place = ("--archive", str(source), "--to", topic.topic, "--bootstrap", topic.formats.bootstrap)
    return Case("replay", (*place, "--job", topic.topic), grow, judge)


def compared(job: str, make: Callable[[GrowingTopic, Path], Job]) -> Make:
    """Return the maker of a case of a job that compares an archive with its topic."""

    def case(topic: GrowingTopic, directory: Path, finish: Finish) -> Case:
        topic.grow(RECORDS)
        lake = make(topic, directory)
        finish(lake.name, *lake.options)
        options = ("--bootstrap", topic.formats.bootstrap, "--topics", topic.topic)
        target = lake.options[lake.options.index("--to") + 1]
        form = ("--format", "iceberg") if "iceberg" in lake.options else ()
        page = ("--html", str(directory / "page.html")) if job == "audit" else ()

        def judge(report: str | None) -> None:
            assert report is None or json.loads(report)["losses"] == []

        return Case(job, (*options, "--from", target, *form, *page), lambda: None, judge)

    return case


CASES: dict[str, Make] = {
    "archive": written(archive_of_files),
    "archive-iceberg": written(archive_of_table),
    "decode": written(decoded_topic),
    "compact": compacted,
    "replay": replayed,
    "verify": compared("verify", archive_of_files),
    "verify-iceberg": compared("verify", archive_of_table),
    "audit": compared("audit", archive_of_files),
}


def trouble(job: str, lines: list[str], code: int, output: str) -> str:
    """Return what is wrong with the answer of a job to SIGINT, or nothing."""
    if code in (1, -signal.SIGINT) and not output and not any(map(OWN.search, lines)):
        return ""  # Python was starting
    if strange := [line for line in lines if not line.startswith(f"{job}: ")]:
        return f"strange lines {strange}"
    sentences = [line for line in lines if line.startswith(f"{job}: interrupted")]
    if code == 0:
        return f"done, and {sentences}" if sentences else ""
    if code != INTERRUPTED or len(sentences) != 1 or lines[-1:] != sentences:
        return f"exit code {code}, {lines}"
    return "" if json.loads(output)["is_interrupted"] else f"report {output}"


@soak
@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_process_says_so_in_a_sentence_and_the_next_one_completes_its_job(
    name: str, spark: SparkSession, formats: BothFormats, tmp_path: Path
) -> None:
    runs = Runs(spark, tmp_path)
    case = CASES[name](GrowingTopic(formats), tmp_path, runs.finish)
    case.grow()
    begun = time.monotonic()
    case.judge(runs.finish(case.name, *case.options))
    whole_s, until = time.monotonic() - begun, time.monotonic() + SOAK_S
    answers, troubles = list[tuple[float, int]](), list[str]()
    while time.monotonic() < until:
        case.grow()
        moment_s, is_group = len(answers) * GOLDEN % 1 * whole_s, len(answers) % 2 == 1
        process = runs.begin(case.name, *case.options)
        try:
            code, output = process.ended(moment_s) or process.end(signal.SIGINT, is_group=is_group)
        finally:
            process.kill()
        answers.append((round(moment_s, 1), code))
        if said := trouble(case.name, process.lines(), code, output):
            troubles.append(f"after {moment_s:.1f} of {whole_s:.1f} s, {is_group=}: {said}")
        case.judge(output if code == 0 else None)
    case.judge(runs.finish(case.name, *case.options))
    logger.info("%s: %d runs, SIGINT after s and exit code: %s", name, len(answers), sorted(answers))
    assert troubles == []


# ---- calls to the JVM


class Interrupting:
    """The stream of a connection to the JVM, which gets SIGINT before the next answer is read."""

    def __init__(self, connection: ClientServerConnection) -> None:
        self._connection, self._stream = connection, connection.stream

    def readline(self) -> bytes:
        self._connection.stream = self._stream
        signal.raise_signal(signal.SIGINT)
        return bytes(self._stream.readline())

    def close(self) -> None:
        self._stream.close()


@contextmanager
def interrupted_call(number: int = 0) -> Iterator[Counter[str]]:
    """Interrupt a call of the main thread to the JVM in the block, the first one by 1. Count the calls as `calls`."""
    counts, send = Counter[str](), ClientServerConnection.send_command

    def counted(connection: ClientServerConnection, command: str) -> Any:
        if threading.current_thread() is threading.main_thread():
            counts["calls"] += 1
            if counts["calls"] == number:
                connection.stream = Interrupting(connection)
        return send(connection, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", counted)
        yield counts


def finish_here(name: str, *options: str) -> str:
    """Run a job in this process to its end, which is no error, and return its report."""
    done = run_here("pipeline", name, "--json", *options)
    assert done.exit_code == 0, done.output
    return done.stdout


def interrupt_calls(spark: SparkSession, case: Case, fractions: Iterable[float]) -> list[tuple[int, int]]:
    """Interrupt runs of a job after these fractions of its calls to the JVM. Return the calls and the exit codes."""
    close_interrupted_calls()  # so that the calls of this test are those of sessions
    case.grow()
    with interrupted_call() as counts:
        case.judge(finish_here(case.name, *case.options))
    answers, troubles = list[tuple[int, int]](), list[str]()
    for fraction in fractions:
        case.grow()
        number = 1 + int(fraction * counts["calls"])
        with interrupted_call(number):
            done = run_here("pipeline", case.name, "--json", *case.options)
        spark.sparkContext.cancelAllJobs()  # as the end of the session of a process
        answers.append((number, done.exit_code))
        if said := trouble(case.name, done.stderr.splitlines(), done.exit_code, done.stdout):
            troubles.append(f"call {number} of {counts['calls']}: {said}")
        case.judge(done.stdout if done.exit_code == 0 else None)
    case.judge(finish_here(case.name, *case.options))
    assert troubles == []
    return answers


def test_a_job_that_is_interrupted_in_a_call_is_completed_by_the_next_one(
    spark: SparkSession, formats: BothFormats, tmp_path: Path
) -> None:
    case = compacted(GrowingTopic(formats), tmp_path, finish_here)
    assert [code for _, code in interrupt_calls(spark, case, (0.2, 0.6))] == [INTERRUPTED] * 2


@soak
@pytest.mark.parametrize("name", CASES)
def test_a_job_may_be_interrupted_in_any_call(
    name: str, spark: SparkSession, formats: BothFormats, tmp_path: Path
) -> None:
    until = time.monotonic() + SOAK_S
    fractions = takewhile(lambda _: time.monotonic() < until, (index * GOLDEN % 1 for index in count()))
    case = CASES[name](GrowingTopic(formats), tmp_path, finish_here)
    logger.info("%s: SIGINT in call and exit code: %s", name, sorted(interrupt_calls(spark, case, fractions)))
