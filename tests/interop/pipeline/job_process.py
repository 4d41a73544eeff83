"""Jobs of the command `pykbroker pipeline` in processes with JVMs of their own, which can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROCESS_S_MAX = 200
"""The start of a session takes 6 s on an idle machine."""


class JobProcess:
    """A run of a job in a process group of its own, whose JVM is killed with it. Its lines go to a file."""

    def __init__(self, directory: Path, job: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "pykbroker", "pipeline", job, "--json", "--master", "local[2]", *arguments]
        self._stderr = directory / f"{uuid.uuid4().hex}.err"
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )

    def wait_until(self, condition: Callable[[], bool], seconds_max: float = PROCESS_S_MAX) -> None:
        """Wait while the process runs."""
        deadline = time.monotonic() + seconds_max
        while not condition():
            assert self._process.poll() is None, self.lines()
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.05)

    def lines(self) -> list[str]:
        """Return the lines of progress."""
        return self._stderr.read_text().splitlines()

    def kill(self) -> None:
        """Kill the process and its JVM with SIGKILL, if they have not ended before."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=PROCESS_S_MAX)

    def ended(self, seconds: float) -> tuple[int, str] | None:
        """Wait for so many seconds until the process ends; return its exit code and output, or None if it runs on."""
        try:
            output, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        return self._process.returncode, output.decode()

    def end(self, number: int, *, is_group: bool = False) -> tuple[int, str]:
        """Send a signal to the process, or to its group as a terminal does; return its exit code and output."""
        if is_group:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)
        ended = self.ended(PROCESS_S_MAX)
        assert ended is not None, self.lines()
        return ended


def with_jars_of(spark: SparkSession) -> tuple[str, str]:
    """Return the option that gives a process the jars of a session, so that its start does not resolve packages."""
    jars = [each.removeprefix("file:") for each in spark.sparkContext.getConf().get("spark.jars", "").split(",")]
    return "--spark", f"spark.driver.extraClassPath={':'.join(jars)}"
