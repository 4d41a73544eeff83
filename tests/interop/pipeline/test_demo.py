"""The command `pykbroker pipeline demo` of the README, in the session of the tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = spark_marks(300)  # many jobs in one test
RECORDS = 20_000
README = (Path(__file__).parents[3] / "README.md").read_text()


def test_the_demonstration_archives_proves_and_measures(spark: SparkSession, tmp_path: Path) -> None:
    (command,) = re.findall(r"^pykbroker (pipeline .*)$", README, re.MULTILINE)
    options = ["--directory", str(tmp_path), "--records", str(RECORDS), "--json"]
    done = CliRunner().invoke(pykbroker, [*shlex.split(command), *options])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout)
    assert (report["job"], report["records"], report["losses"]) == ("demo", RECORDS, [])
    assert report["seconds_to_first_row"] < report["seconds"]
    assert pq.read_table(tmp_path / "lake").num_rows == RECORDS
    assert pq.read_table(tmp_path / "customers").num_rows == report["customers"] > 1000
    assert "The archive is complete" in (tmp_path / "audit.html").read_text()
    for sentence in ("A producer sends 20,000 orders", "each once and unchanged", "The first one: orders-"):
        assert sentence in done.stderr


def test_a_directory_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = CliRunner().invoke(pykbroker, ["pipeline", "demo", "--directory", str(tmp_path)])
    assert done.exit_code == 2
    assert "has files: choose an empty directory" in done.stderr
