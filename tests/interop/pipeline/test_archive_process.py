"""The command `pykbroker pipeline archive` in processes that are killed, with `verify` as the judge."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pykbroker.pipeline.jobs.commits import STAGING
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.both_formats import BothFormats, numbers
from tests.interop.pipeline.job_process import JobProcess, with_jars_of
from tests.interop.pipeline.marks import spark_marks

RECORDS = 3_000

pytestmark = spark_marks(600)  # processes that start sessions of their own


def interrupt_while_the_session_opens(directory: Path) -> None:
    """Send SIGINT to a run whose JVM has its SparkContext. It says that it is interrupted, and has made nothing."""
    target, scratch = directory / "none", directory / "scratch"
    arguments = ("--bootstrap", "127.0.0.1:1", "--topics", "a", "--to", str(target), "--connector", "python")
    process = JobProcess(directory, "archive", *arguments, "--spark", f"spark.local.dir={scratch}")
    try:
        process.wait_until(lambda: next(scratch.glob("blockmgr-*"), None) is not None)
        code, output = process.end(signal.SIGINT)
    finally:
        process.kill()
    assert code == 130, process.lines()
    assert process.lines()[-1] == "archive: interrupted"
    report = json.loads(output)
    assert (report["error"], report["exit_code"], report["is_interrupted"]) == ("interrupted", 130, True)
    assert not target.exists()


def test_a_killed_run_is_continued_and_a_stopped_one_ends_in_order(
    formats: BothFormats, tmp_path: Path, java: str
) -> None:
    """Beside the first run, another one gets a signal while its session opens, so that two JVMs start at once."""
    archives = Archives(formats.spark, formats.bootstrap, tmp_path)
    topic = formats.topic()
    for partition in range(2):
        formats.feed(topic, numbers(0, RECORDS // 2), partition)
    source, staging = archives.source(topic), Path(archives.path("lake"), STAGING)
    arguments = ("--bootstrap", formats.bootstrap, "--topics", topic, "--to", archives.path("lake"))
    many, jars = ("--kafka", "maxOffsetsPerTrigger=500"), with_jars_of(formats.spark)

    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(interrupt_while_the_session_opens, tmp_path)
        first = JobProcess(tmp_path, "archive", *arguments, *many, *jars)
        try:
            first.wait_until(lambda: any("batch 1:" in line for line in first.lines()))
            first.wait_until(lambda: next(staging.rglob("*.parquet"), None) is not None)
        finally:
            first.kill()
        opening.result()
    seen = [row[3:5] for row in archives.rows("lake")]
    assert 1_000 <= len(seen) < RECORDS
    assert len(seen) == len(set(seen))

    second = JobProcess(tmp_path, "archive", *arguments, "--every", "100ms", *jars)
    try:
        second.wait_until(lambda: archives.count("lake") == RECORDS)
        code, output = second.end(signal.SIGTERM)
    finally:
        second.kill()
    assert code == 0, second.lines()
    report = json.loads(output)
    assert (report["job"], report["losses"], report["is_interrupted"]) == ("archive", [], False)
    assert "archive: interrupted; the next run continues" in second.lines()
    report = archives.verify(source, "lake")
    assert (report.losses, report.figures["records"], report.figures["not_archived_yet"]) == ([], RECORDS, 0)
