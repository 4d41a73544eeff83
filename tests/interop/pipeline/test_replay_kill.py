"""A replay that is killed, with a JVM of its own, and started again in the session of the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.pipeline.cluster import PipelineCluster
from tests.interop.pipeline.archived_rows import archived, content, topic_content, write_archive
from tests.interop.pipeline.both_formats import BothFormats

PARTITIONS, RECORDS = 3, 4000
START_S_MAX = 80

pytestmark = [
    pytest.mark.timeout(240, func_only=True),  # a JVM starts
    pytest.mark.filterwarnings("ignore"),  # the Java version and jars of pyspark
]


class ReplayProcess:
    """A process of `pykbroker pipeline replay` in a process group of its own, as its JVM is."""

    def __init__(self, directory: Path, *options: str) -> None:
        command = [sys.executable, "-m", "pykbroker", "pipeline", "replay", "--master", "local[2]", *options]
        self._output = directory / f"{uuid.uuid4().hex}.err"
        with self._output.open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        """Return what the process has said."""
        return self._output.read_text()

    def kill(self) -> None:
        """Kill the process and its JVM with SIGKILL."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def processes() -> Iterator[list[ReplayProcess]]:
    started: list[ReplayProcess] = []
    yield started
    for each in started:
        each.kill()


def test_a_killed_replay_writes_each_record_once(
    formats: BothFormats, tmp_path: Path, processes: list[ReplayProcess]
) -> None:
    """The kill comes after the first transactions. The content of the topic is then that of the archive."""
    rows = [row for partition in range(PARTITIONS) for row in archived("orders", partition, range(RECORDS))]
    write_archive(tmp_path / "archive", rows)
    copy, job = formats.topic(PARTITIONS), f"killed-{uuid.uuid4().hex[:8]}"
    options = ("--archive", str(tmp_path / "archive"), "--to", copy, "--job", job, "-b", formats.bootstrap)
    processes.append(ReplayProcess(tmp_path, *options, "--rate", "1500"))
    cluster, deadline = PipelineCluster(formats.bootstrap), time.monotonic() + START_S_MAX
    while len(cluster.last_committed(job)) < 2:
        assert processes[0].is_running, processes[0].output()
        assert time.monotonic() < deadline, processes[0].output()
        time.sleep(0.05)
    processes[0].kill()
    written = len(topic_content(formats.bootstrap, copy))
    assert 0 < written < len(rows)
    continued = CliRunner().invoke(pykbroker, ["pipeline", "replay", "--json", *options])
    assert continued.exit_code == 0, continued.output
    report = json.loads(continued.stdout)
    assert topic_content(formats.bootstrap, copy) == content(rows)
    assert (report["losses"], report["written_before"], report["records"]) == ([], written, len(rows) - written)
