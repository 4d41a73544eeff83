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
    ARGUMENTS,
    DEFAULT_MASTER,
    DEFAULTS,
    DRIVER_MEMORY,
    LOCAL,
    MASTER,
    MEMORY_VARIABLES,
    PROGRESS,
    file_settings,
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
    for name in (ARGUMENTS, "SPARK_CONF_DIR", "MASTER", spark_defaults.SUBMITTED, *MEMORY_VARIABLES):
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
    ("option", "conf", "file", "environment", "master"),
    [
        ("spark://option", "local[2]", "local[3]", {}, "spark://option"),
        ("", "spark://conf", "local[3]", {"MASTER": "local[4]"}, "spark://conf"),
        ("local[2]", "spark://conf", "spark://file", {ARGUMENTS: "--master yarn pyspark-shell"}, "local[2]"),
        ("", "", "local[3]", {ARGUMENTS: "--master=yarn -c spark.master=local pyspark-shell"}, "yarn"),
        ("", "", "local[3]", {ARGUMENTS: "--conf a=b --conf spark.master=yarn pyspark-shell"}, "yarn"),
        ("", "", "spark://file", {ARGUMENTS: "--verbose pyspark-shell", "MASTER": "local[4]"}, "spark://file"),
        ("", "", "", {"MASTER": "spark://variable"}, "spark://variable"),
        ("", "", "", {}, DEFAULT_MASTER),
    ],
)
def test_the_master_is_that_of_the_command_and_otherwise_that_of_spark_submit(
    launched: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    conf: str,
    file: str,
    environment: Mapping[str, str],
    master: str,
) -> None:
    """Executors of a cluster cannot reach a driver at 127.0.0.1. A master that Spark finds by itself is not given."""
    for name, value in {"SPARK_LOCAL_IP": "", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SPARK_LOCAL_IP")
    if file:
        (launched.parent / "conf").mkdir()
        (launched.parent / "conf/spark-defaults.conf").write_text(f"# a file\nspark.x: 1\nspark.master  {file}\n")
    with pytest.raises(PipelineError, match="Spark could not start"):
        start(SessionSettings(option, conf={MASTER: conf} if conf else {}), {})
    memory, *arguments = launched.read_text().splitlines()
    is_here = master.startswith("local")
    assert memory == (DRIVER_MEMORY if is_here else "none")
    assert os.environ.get("SPARK_LOCAL_IP") == (LOCAL["spark.driver.host"] if is_here else None)
    given = [each for each in arguments if each.startswith(MASTER) and each not in environment.get(ARGUMENTS, "")]
    assert given == [f"{MASTER}={master}"] * bool(option or conf)


def test_arguments_without_an_end_are_named(launched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ARGUMENTS, '--conf "a=b pyspark-shell')
    with pytest.raises(PipelineError, match='PYSPARK_SUBMIT_ARGS=--conf "a=b pyspark-shell cannot be split .*closing'):
        start(SessionSettings(), {})
    assert not launched.exists()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("spark.master spark://h:7077", "spark://h:7077"),
        ("  spark.master=spark://h:7077  ", "spark://h:7077"),
        ("spark.master : local[2]", "local[2]"),
        ("spark.master\tlocal", "local"),
        ("# spark.master local", None),
        ("! spark.master local", None),
        ("spark.masters local", None),
        ("", None),
    ],
)
def test_a_setting_of_a_file_is_found_as_java_finds_it(tmp_path: Path, line: str, found: str | None) -> None:
    path = tmp_path / "spark-defaults.conf"
    assert file_settings(path) == {}
    path.write_text(f"\n{line}\nspark.app.name two words\n")
    assert file_settings(path).get(MASTER) == found


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
