"""The jobs on a real master with one worker. Its executors have a Python without any package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.interop.java_tools import SHORT_LIVED_JVM
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.both_formats import BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks
from tests.interop.pipeline.standalone import bare_python, standalone

PROCESS_S_MAX = 400

pytestmark = spark_marks(600)  # two JVMs


def test_executors_get_the_packages_that_they_lack(formats: BothFormats, tmp_path: Path, java: str) -> None:
    """The archive is written by one JVM, and verified by the Python source in the tasks of a cluster."""
    archives = Archives(formats.spark, formats.bootstrap, tmp_path)
    topic = formats.topic()
    formats.feed(topic, numbers(0, 500), compression_type="zstd")
    archives.archive(archives.source(topic), "lake")
    python = bare_python(tmp_path / "bare")
    with standalone(formats.spark, tmp_path) as url:
        command = (
            f"verify --json --master {url} --connector python --bootstrap {formats.bootstrap} --topics {topic} "
            f"--from {archives.path('lake')} --spark spark.driver.host=127.0.0.1 --spark spark.executor.memory=512m "
            "--spark spark.sql.shuffle.partitions=1"
        )
        java_options = f"spark.executor.extraJavaOptions={' '.join(SHORT_LIVED_JVM)}"
        run = subprocess.run(
            [sys.executable, "-m", "pykbroker", "pipeline", *command.split(), "--spark", java_options],
            capture_output=True,
            text=True,
            timeout=PROCESS_S_MAX,
            env={**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
            check=False,
        )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert (report["records"], report["losses"]) == (500, [])
    lacking = "cramjam, fastavro, fastcrc, msgspec, pandas, pyarrow, pykbroker, trio"
    sent = f"the Python of the executors lacks {lacking}: sending them"
    assert sent in run.stderr
    for name in ("pykbroker", "wire", "pyarrow", "msgspec"):
        assert list((tmp_path / "work").glob(f"app-*/0/pykbroker-packages/{name}/__init__.py")), name
