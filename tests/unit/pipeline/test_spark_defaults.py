"""The settings of a session beside those of the user: those of its launch, of its JVM, and of a running session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext

from pykbroker.pipeline import spark_defaults
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.session import SessionSettings, start
from pykbroker.pipeline.spark_defaults import (
    DEFAULTS,
    DRIVER_MEMORY,
    LOCAL,
    MEMORY_VARIABLES,
    PROGRESS,
    lacking_defaults,
    prefer,
)

SUBMIT = """#!/bin/sh
printf '%s\\n' "${SPARK_DRIVER_MEMORY-none}" "$@" >"$SPARK_HOME/launched"
exit 1
"""


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file into which the launch of a JVM writes its memory and its arguments."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(SUBMIT)
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for name in ("PYSPARK_SUBMIT_ARGS", spark_defaults.SUBMITTED, *MEMORY_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    for name in ("_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    return tmp_path / "launched"


@pytest.mark.parametrize(
    ("master", "environment", "memory"),
    [
        ("local[2]", {}, DRIVER_MEMORY),
        ("local[2]", {"SPARK_DRIVER_MEMORY": "5g"}, "5g"),
        ("local[2]", {"SPARK_MEM": "5g"}, "none"),
        ("spark://host:7077", {}, "none"),
    ],
)
def test_a_launch_leaves_to_the_user_what_files_and_arguments_of_spark_may_set(
    launched: Path, monkeypatch: pytest.MonkeyPatch, master: str, environment: Mapping[str, str], memory: str
) -> None:
    """The variable has the lowest rank, and an argument --conf the highest one."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with pytest.raises(PipelineError, match="Spark could not start"):
        start(SessionSettings(master, conf={"spark.x": "1"}), {"spark.jars": "/a.jar"})
    found, *arguments = launched.read_text().splitlines()
    given = {each for each in arguments if "=" in each}
    progress = {f"{key}={value}" for key, value in PROGRESS.items()}
    assert (found, given) == (memory, {f"spark.master={master}", "spark.x=1", "spark.jars=/a.jar", *progress})
    assert {name: os.environ.get(name) for name in MEMORY_VARIABLES} == {
        name: before.get(name) for name in MEMORY_VARIABLES
    }


@pytest.mark.parametrize(
    ("option", "master", "is_here"), [("local[*]", "spark://host:7077", False), ("spark://host:7077", "local[2]", True)]
)
def test_a_master_among_the_settings_decides_where_the_tasks_run(
    launched: Path, monkeypatch: pytest.MonkeyPatch, option: str, master: str, is_here: bool
) -> None:
    """Executors of a cluster could not reach a driver at 127.0.0.1."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "")
    monkeypatch.delenv("SPARK_LOCAL_IP")
    with pytest.raises(PipelineError, match="Spark could not start"):
        start(SessionSettings(option, conf={"spark.master": master}), {})
    assert launched.read_text().splitlines()[0] == (DRIVER_MEMORY if is_here else "none")
    assert os.environ.get("SPARK_LOCAL_IP") == (LOCAL["spark.driver.host"] if is_here else None)


@pytest.mark.parametrize("is_here", [True, False])
def test_a_default_gives_way_to_what_the_jvm_has_from_the_user(monkeypatch: pytest.MonkeyPatch, is_here: bool) -> None:
    known = {"spark.hadoop.parquet.block.size": "1", "spark.driver.host": "10.0.0.1", "spark.other": "2"}

    class Conf:
        def __init__(self, loadDefaults: bool = True) -> None:
            self.entries = dict(known) if loadDefaults else {}

        def set(self, key: str, value: str) -> None:
            self.entries[key] = value

        def contains(self, key: str) -> bool:
            return key in self.entries

    launches: list[Any] = []
    monkeypatch.setattr(pyspark, "SparkConf", Conf)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda conf: launches.append(conf.entries))
    wanted = {**DEFAULTS, **(LOCAL if is_here else {})}
    found = lacking_defaults({"spark.x": "1"}, is_here=is_here)
    assert found == {key: value for key, value in wanted.items() if key not in known}
    assert launches == [{**PROGRESS, "spark.x": "1"}]


def test_a_job_sets_in_a_session_only_what_the_user_has_not() -> None:
    entries = {"given": "1"}
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=entries.get, set=entries.__setitem__))
    for key in ("given", "other"):
        prefer(spark, key, "2")
    assert entries == {"given": "1", "other": "2"}
