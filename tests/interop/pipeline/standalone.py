"""A master and a worker of Spark, each in a JVM of its own, as a cluster of one machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

START_S_MAX = 60
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Start a master and a worker with two cores, and yield the URL of the master."""
    with _daemon(directory, MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0") as log:
        url = _found(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        work = ("--work-dir", str(directory / "work"), "--cores", "2", "--memory", "1g", "--webui-port", "0")
        with _daemon(directory, WORKER, "--host", "127.0.0.1", *work, url) as log:
            _found(log, r"(Successfully registered with master)")
            yield url


@contextmanager
def _daemon(directory: Path, name: str, *arguments: str) -> Iterator[Path]:
    """Run a daemon of Spark, and yield the path of its log."""
    home = Path(pyspark.__file__).parent
    log = directory / f"{name.rsplit('.', 1)[1]}.log"
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(home / "bin" / "spark-class"), name, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(START_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _found(log: Path, pattern: str) -> str:
    """Wait until a log has a line, and return its first group."""
    deadline = time.monotonic() + START_S_MAX
    while (match := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return match[1]


def bare_python(directory: Path) -> Path:
    """Make a Python of this version without any package, and return its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=START_S_MAX)
    return directory / "bin" / "python"
