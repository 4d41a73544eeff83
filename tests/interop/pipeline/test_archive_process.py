"""The command `pykbroker pipeline archive` in processes that are killed, with `verify` as the judge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.both_formats import BothFormats, numbers

PROCESS_S_MAX = 200
"""The start of a session takes 6 s on an idle machine."""
RECORDS = 3_000

pytestmark = [
    pytest.mark.timeout(600, func_only=True),  # processes that start sessions of their own
    pytest.mark.filterwarnings("ignore"),  # the Java version and jars of pyspark
]


class ArchiveProcess:
    """A run of the command in a process group of its own, whose JVM is killed with it."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._stderr = directory / "stderr"
        command = [
            sys.executable,
            "-m",
            "pykbroker",
            "pipeline",
            "archive",
            "--json",
            "--master",
            "local[2]",
            *arguments,
        ]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait while the process runs."""
        deadline = time.monotonic() + PROCESS_S_MAX
        while not condition():
            assert self.process.poll() is None, self.lines()
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.05)

    def lines(self) -> list[str]:
        """Return the lines of progress."""
        return self._stderr.read_text().splitlines()

    def kill(self) -> None:
        """Kill the process and its JVM with SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PROCESS_S_MAX)

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal to the process, and return its exit code and output."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=PROCESS_S_MAX)
        return self.process.returncode, output.decode()


def test_a_killed_run_is_continued_and_a_stopped_one_ends_in_order(
    formats: BothFormats, tmp_path: Path, java: str
) -> None:
    archives = Archives(formats.spark, formats.bootstrap, tmp_path)
    topic = formats.topic()
    for partition in range(2):
        formats.feed(topic, numbers(0, RECORDS // 2), partition)
    source, staging = archives.source(topic), Path(archives.path("lake.staging"))
    arguments = ("--bootstrap", formats.bootstrap, "--topics", topic, "--to", archives.path("lake"))
    many = ("--kafka", "maxOffsetsPerTrigger=500")

    first = ArchiveProcess(tmp_path, *arguments, *many)
    try:
        first.wait_until(lambda: any("batch 1:" in line for line in first.lines()))
        first.wait_until(lambda: next(staging.rglob("*.parquet"), None) is not None)
    finally:
        first.kill()
    seen = [row[3:5] for row in archives.rows("lake")]
    assert 1_000 <= len(seen) < RECORDS
    assert len(seen) == len(set(seen))

    second = ArchiveProcess(tmp_path, *arguments, "--every", "100ms")
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
