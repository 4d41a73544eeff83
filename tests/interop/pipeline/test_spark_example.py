"""The program `examples/spark/square.py` and its output, in the session of the tests.

`python -m tools.examples spark` runs it in a process of its own.
"""

from __future__ import annotations

import re
import runpy
import sys
from typing import TYPE_CHECKING

import pytest

from tests.interop.pipeline.marks import spark_marks
from tools.broker_process import BrokerProcess
from tools.examples import EXAMPLES, PROGRAMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = spark_marks()


def test_the_example_prints_the_expected_line(
    spark: SparkSession,
    spark_broker: BrokerProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (example,) = (each for each in PROGRAMS if each.directory == "spark")
    (line,) = example.prints
    monkeypatch.setattr(sys, "argv", [example.file, spark_broker.address])
    runpy.run_path(str(EXAMPLES / example.directory / example.file), run_name="__main__")
    assert re.fullmatch(line, capsys.readouterr().out.strip())
    assert spark.range(1).count() == 1
