"""The examples of `docs/pipeline.md` and their output, in the order of the page."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.cli.pipeline.pipeline import JOBS, pipeline
from tests.interop.java_tools import agree, lines_of
from tests.interop.pipeline.marks import spark_marks
from tools.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = spark_marks(300)  # many jobs in one test
PAGE = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text()
EXAMPLE = re.compile(r"```(?P<kind>console|python)\n(?P<text>.*?)```(\n\n```text\n(?P<printed>.*?)```)?", re.DOTALL)
JOB = "pykbroker pipeline "
ADDRESS, BOOTSTRAP = "127.0.0.1:9092", "PYKBROKER_BOOTSTRAP"
COMMAND_S_MAX = 55


def examples() -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each example, the command or program, and its output."""
    for match in EXAMPLE.finditer(PAGE):
        if match["kind"] == "python":
            yield "python", match["text"], match["printed"] or ""
            continue
        for part in re.split(r"^\$ ", match["text"], flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield "job" if command.startswith(JOB) else "shell", command, printed


def output(kind: str, text: str, environ: dict[str, str], spark: SparkSession) -> str:
    """Return what an example prints. Jobs and programs use the session of the tests."""
    if kind == "job":
        done = CliRunner().invoke(pykbroker, shlex.split(text)[1:], env=environ)
        assert done.exit_code == 0, done.output
        return done.output
    if kind == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(text.replace(ADDRESS, environ[BOOTSTRAP]), {"spark": spark})  # noqa: S102 - the page's own
        return printed.getvalue()
    run = subprocess.run(["bash", "-c", text], env=environ, capture_output=True, text=True, timeout=COMMAND_S_MAX)
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


def test_each_example_prints_its_output(
    spark: SparkSession, shared_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, BOOTSTRAP: shared_broker.address}
    found = list(examples())
    assert [kind for kind, _, _ in found].count("job") == PAGE.count("\n$ pykbroker pipeline ") >= 4
    for kind, text, expected in found:
        printed = output(kind, text, environ, spark)
        assert agree(lines_of(expected), lines_of(printed)), f"{text}\n{printed}instead of\n{expected}"


def test_the_page_describes_all_jobs_and_their_options() -> None:
    context = click.Context(pipeline)
    for name in JOBS:
        assert re.search(rf"^\| \[`{name}`\]\(#", PAGE, re.MULTILINE), name
        command = pipeline.get_command(context, name)
        assert command is not None
        options = [each.opts[-1] for each in command.params if each.name not in ("help",)]
        missing = [each for each in options if f"`{each}" not in PAGE and f" {each} " not in PAGE]
        assert missing == [], name


def test_the_links_of_the_page_lead_to_its_sections() -> None:
    sections = {title.lower().replace(" ", "-") for title in re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\(#([\w-]+)\)", PAGE)) <= sections
